"""What every answer has in common, and what OpenAPI says of it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pytest
from jsonschema_rs import validator_for
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from support.api import ADMIN, ALICE, Api, MakeApi, open_api, served
from support.waiting import PATIENCE
from support.workers import rows
from taskbell.producer.api.front import RequestFailed, RequestServed
from taskbell.producer.api.principal import Principal
from taskbell.producer.api.problems import KINDS
from taskbell.producer.api.route import Operation, Route
from taskbell.shared.database import conninfo

NOWHERE = "postgresql://postgres@127.0.0.1:1/nothing"


async def _document(api: Api) -> dict[str, Any]:
    answer = await api.client.get("/openapi.json")
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


async def test_every_problem_has_the_same_shape_and_a_known_type(api: Api) -> None:
    document = await _document(api)
    schema = {"$ref": "#/components/schemas/Problem", "components": document["components"]}
    problem = validator_for(schema)
    provoked = {
        "not-found": await api.client.get("/nothing"),
        "method-not-allowed": await api.client.delete("/tasks"),
        "unauthenticated": await api.client.get("/tasks", headers={"Authorization": "x"}),
        "unsupported-media-type": await api.client.post("/tasks", content=b"{}"),
        "malformed-request": await api.client.post(
            "/tasks", content=b"{", headers={"Content-Type": "application/json"}
        ),
        "invalid-task": await api.client.post("/tasks", json={}),
        "invalid-cursor": await api.client.get("/tasks?cursor=x"),
        "forbidden": await api.client.get("/tasks?owner_id=bob"),
    }

    for name, answer in provoked.items():
        told = answer.json()
        problem.validate(told)
        assert answer.headers["content-type"] == "application/problem+json"
        assert (told["type"], told["status"]) == (KINDS[name].type, answer.status_code)
        assert told["instance"] == f"urn:uuid:{answer.headers['x-request-id']}"


async def test_every_answer_names_its_request_and_is_not_kept(api: Api) -> None:
    answers = [await api.client.get(path) for path in ("/tasks", "/nothing", "/openapi.json")]

    for answer in answers:
        UUID(answer.headers["x-request-id"])
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)


async def test_405_allows_exactly_what_the_path_knows(api: Api) -> None:
    known: dict[str, set[str]] = {}
    for route in api.app.state.routes:
        known.setdefault(route.path, set()).add(route.method)

    lists = await api.client.request("BREW", "/tasks")
    batch = await api.client.put("/tasks/batch")

    assert lists.status_code == batch.status_code == 405
    assert lists.headers["allow"] == "GET, HEAD, POST"
    assert batch.headers["allow"] == "POST"


async def test_the_name_of_another_path_is_no_id(api: Api) -> None:
    for path in ("/tasks/batch", "/dead-letters/redrive"):
        answer = await api.client.get(path)

        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert (await api.client.get("/dead-letters/causes")).status_code == 200


async def test_head_answers_as_get_does_without_a_body(make_api: MakeApi) -> None:
    begun: list[bytes] = []

    async def stream(request: Request, principal: Principal) -> Response:
        del request, principal

        async def endless() -> AsyncIterator[bytes]:
            while True:
                begun.append(b"x")
                yield b"x"

        return StreamingResponse(endless(), media_type="text/event-stream")

    streaming = Route("GET", "/stream", None, stream, Operation("Stream", "Tests"))
    api = make_api(more=[streaming])

    listed = await api.client.head("/tasks")
    streamed = await api.client.head("/stream")
    missing = await api.client.head("/tasks/01980b1c-8d4e-7cc3-98c4-dc0c0c07398f")

    assert [each.status_code for each in (listed, streamed, missing)] == [200, 200, 404]
    assert [each.content for each in (listed, streamed, missing)] == [b"", b"", b""]
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert begun == []
    assert api.parts.traffic.in_flight == 0


@pytest.mark.parametrize(
    "path", ["//tasks", "/tasks/", "/Tasks", "/tasks//x", "/.", "/%2e%2e/tasks"]
)
async def test_a_path_is_taken_as_it_is_written(api: Api, path: str) -> None:
    answer = await api.client.get(f"http://api{path}")

    assert answer.status_code == 404


async def test_a_request_is_told_by_its_template_and_principal(api: Api) -> None:
    await api.client.get("/tasks/01980b1c-8d4e-7cc3-98c4-dc0c0c07398f?x=a-secret")

    (served,) = [event for event in api.events if isinstance(event, RequestServed)]
    assert (served.route, served.method, served.status) == ("/tasks/{task_id}", "GET", 422)
    assert served.principal == ALICE.name
    assert "a-secret" not in repr(served)


def _failing(error: Exception) -> Route:
    async def fail(request: Request, principal: Principal) -> Response:
        del request, principal
        raise error

    return Route("GET", "/failing", None, fail, Operation("Fail", "Tests"))


async def test_what_nobody_foresaw_is_answered_without_its_text(make_api: MakeApi) -> None:
    api = make_api(more=[_failing(KeyError("a secret"))])

    answer = await api.client.get("/failing")

    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:taskbell:problem:internal"
    assert "a secret" not in answer.text
    (failed,) = [event for event in api.events if isinstance(event, RequestFailed)]
    assert (failed.error_class, failed.route) == ("KeyError", "/failing")
    assert failed.where.startswith("test_frame.py:")
    assert "a secret" not in repr(api.events)


@pytest.mark.parametrize("size", [0, 65536, 65537, 200_000])
async def test_a_large_body_is_sent_in_pieces(make_api: MakeApi, size: int) -> None:
    body = b"".join(b"%06d\n" % n for n in range(30_000))[:size]

    async def answer(request: Request, principal: Principal) -> Response:
        del request, principal
        return Response(body)

    api = make_api(more=[Route("GET", "/large", None, answer, Operation("Answer", "Tests"))])
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": "/large", "raw_path": b"/large",
        "query_string": b"", "headers": [], "root_path": "", "http_version": "1.1",
    }  # fmt: skip
    await api.app(scope, receive, send)

    _, *pieces = sent
    assert b"".join(each["body"] for each in pieces) == body
    assert all(len(each["body"]) <= 65536 for each in pieces)
    assert [each.get("more_body", False) for each in pieces] == [True] * (len(pieces) - 1) + [False]


async def test_a_slow_reader_is_waited_for_as_long_as_it_goes_on(
    make_api: MakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[int] = []
    resume = HttpToolsProtocol.resume_writing

    def noted(self: HttpToolsProtocol) -> None:
        resumed.append(1)
        resume(self)

    monkeypatch.setattr(HttpToolsProtocol, "resume_writing", noted)

    async def answer(request: Request, principal: Principal) -> Response:
        del request, principal
        return Response(b"x" * 32_000_000)

    api = make_api(more=[Route("GET", "/large", None, answer, Operation("Answer", "Tests"))])
    async with served(api) as port, httpx2.AsyncClient(timeout=PATIENCE) as client:
        read = (await client.get(f"http://127.0.0.1:{port}/large")).content

    assert len(read) == 32_000_000
    assert len(resumed) > 1  # each time the clock that cuts off who does not read begins anew


async def test_an_answer_that_breaks_off_is_reported(make_api: MakeApi) -> None:
    async def break_off(request: Request, principal: Principal) -> Response:
        del request, principal

        async def half() -> AsyncIterator[bytes]:
            yield b"half"
            raise KeyError

        return StreamingResponse(half())

    broken = Route("GET", "/broken", None, break_off, Operation("Break off", "Tests"))
    api = make_api(more=[broken])

    async with served(api) as port, httpx2.AsyncClient() as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(f"http://127.0.0.1:{port}/broken")

    assert [event for event in api.events if isinstance(event, RequestFailed)]
    assert api.parts.traffic.in_flight == 0


async def test_without_a_database_writes_and_reads_say_when_to_come_back() -> None:
    api = open_api(NOWHERE)
    try:
        written = await api.client.post("/tasks", json={"type": "noop"})
        read = await api.client.get("/tasks/01980b1c-8d4e-7cc3-98c4-dc0c0c07398f")
    finally:
        await api.close()

    for answer in (written, read):
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:taskbell:problem:database-away"
        assert answer.headers["retry-after"] == "2"
    assert "Idempotency-Key" in written.json()["detail"]
    assert "127.0.0.1" not in written.text + read.text


async def test_a_database_that_takes_no_writes_still_answers_reads(
    api: Api, database_url: str
) -> None:
    made = await api.client.post("/tasks", json={"type": "noop"})
    _set_read_only(database_url, "on")
    await api.parts.connections.close()

    refused = await api.client.post("/tasks", json={"type": "noop"})
    batch = await api.client.post("/tasks/batch", json={"tasks": [{"type": "noop"}]})
    shown = await api.client.get(made.headers["location"])
    listed = await api.client.get("/tasks")
    _set_read_only(database_url, "off")
    again = [await api.client.post("/tasks", json={"type": "noop"}) for _ in range(2)]

    assert [each.status_code for each in (refused, batch, shown, listed)] == [503, 503, 200, 200]
    assert refused.json()["type"] == "urn:taskbell:problem:database-read-only"
    assert refused.headers["retry-after"] == "5"
    # Those who read kept their connection; it is closed when it is found unable to write.
    assert again[-1].status_code == 201


def _set_read_only(url: str, value: str) -> None:
    writing = "-c default_transaction_read_only=off"
    with psycopg.connect(conninfo(url), autocommit=True, options=writing) as connection:
        name = connection.info.dbname
        setting = f"ALTER DATABASE {name} SET default_transaction_read_only = {value}"
        connection.execute(setting.encode())


async def test_an_empty_database_is_called_so(empty_database_url: str) -> None:
    api = open_api(empty_database_url)
    try:
        answers = [
            await api.client.post("/tasks", json={"type": "noop"}),
            await api.client.get("/tasks/01980b1c-8d4e-7cc3-98c4-dc0c0c07398f"),
            await api.client.get("/tasks"),
        ]
    finally:
        await api.close()

    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:taskbell:problem:not-migrated"


async def test_the_document_has_every_route_and_no_other(api: Api) -> None:
    document = await _document(api)

    told = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    assert told == {
        (route.method, route.path.replace(":path}", "}")) for route in api.app.state.routes
    }
    identities = [
        each["operationId"] for path in document["paths"].values() for each in path.values()
    ]
    assert len(set(identities)) == len(identities)


async def test_every_operation_has_an_example_that_its_own_schema_accepts(api: Api) -> None:
    document = await _document(api)
    components = document["components"]

    looked_at = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for kind, media in (
                each for body in bodies for each in body.get("content", {}).items()
            ):
                looked_at += _accepts(f"{method} {path}", kind, media, components)
            for parameter in operation["parameters"]:
                given = parameter.get("example", parameter["schema"].get("examples", [None])[0])
                assert validator_for(parameter["schema"]).is_valid(given), (path, parameter)
    assert looked_at > 20


def _accepts(where: str, kind: str, media: dict[str, Any], components: dict[str, Any]) -> int:
    schema = {**media["schema"], "components": components}
    given = [each["value"] for each in media.get("examples", {}).values()]
    given += [media["example"]] if "example" in media else []
    assert given or kind.startswith(("text/", "application/json")), where
    for example in given:
        validator_for(schema).validate(example)
    return len(given)


async def test_the_example_of_a_task_makes_one(api: Api) -> None:
    document = await _document(api)
    for path in ("/tasks", "/tasks/batch"):
        content = document["paths"][path]["post"]["requestBody"]["content"]

        answer = await api.client.post(path, json=content["application/json"]["example"])

        assert answer.status_code == 201


@pytest.mark.parametrize("path", ["/tasks/{task_id}", "/tasks"])
async def test_an_answer_is_what_the_document_says(api: Api, path: str) -> None:
    document = await _document(api)
    made = await api.client.post("/tasks", json={"type": "noop"})

    answer = await api.client.get(path.replace("{task_id}", made.json()["task_id"]))

    told = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    schema = {**told["schema"], "components": document["components"]}
    validator_for(schema).validate(answer.json())


async def test_the_schema_refuses_what_is_refused(api: Api) -> None:
    document = await _document(api)
    schema = {"$ref": "#/components/schemas/TaskBody", "components": document["components"]}
    task = validator_for(schema)
    instant = "2030-01-31T12:00:00Z"

    refused: list[dict[str, Any]] = [
        {"type": "noop", "delay": 1, "scheduled_at": instant}, {"type": ""},
        {"type": "noop", "x": 1}, {"type": "noop", "payload": 1, "payload_location": "x"},
        {"type": "noop", "queue": "amq.x"}, {"type": "noop", "queue": "a,b"}, {"payload": 1},
        {"type": "noop", "priority": 10}, {"type": "noop", "partition_key": "x" * 121},
    ]  # fmt: skip
    for asked in refused:
        answer = await api.client.post("/tasks", json=asked)
        assert (answer.status_code, task.is_valid(asked)) == (422, False), asked
    taken: list[dict[str, Any]] = [
        {"type": "noop", "delay": None, "scheduled_at": instant}, {"type": "noop", "queue": "a b"},
        {"type": "noop", "delay": 1, "scheduled_at": None}, {"type": "noop", "priority": 5.0},
    ]  # fmt: skip
    for asked in taken:
        answer = await api.client.post("/tasks", json=asked)
        assert (answer.status_code, task.is_valid(asked)) == (201, True), asked


async def test_connections_that_postgres_ended_while_they_rested_cost_nobody_an_error(
    api: Api, database_url: str
) -> None:
    asked = [api.client.get("/tasks") for _ in range(3)]
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}

    ended = rows(
        database_url,
        "SELECT pg_terminate_backend(pid, 10000) AS done FROM pg_stat_activity"
        " WHERE application_name = 'taskbell api' AND datname = current_database()",
    )
    answers = [await api.client.get("/tasks"), await api.client.post("/tasks", json={"type": "a"})]

    assert ended
    assert all(row.done for row in ended)
    assert [answer.status_code for answer in answers] == [200, 201]


async def test_every_route_behind_a_scope_refuses_a_parameter_it_does_not_know(api: Api) -> None:
    admin = api.as_(ADMIN)
    task_id = (await admin.post("/tasks", json={"type": "a"})).json()["task_id"]
    bodies = {
        "/tasks": {"type": "a"},
        "/tasks/batch": {"tasks": [{"type": "a"}]},
        "/dead-letters/redrive": {"queue": "default"},
    }
    answers: dict[str, int] = {}

    for route in api.app.state.routes:
        if route.scope is not None and route.path != "/metrics":  # which serves whatever asks
            path = route.path.replace("{task_id}", task_id).replace("{queue:path}", "q")
            answer = await admin.request(
                route.method, f"{path}?unknown=1", json=bodies.get(route.path)
            )
            answers[f"{route.method} {route.path}"] = answer.status_code

    assert len(answers) > 10
    assert {name: status for name, status in answers.items() if status != 422} == {}
