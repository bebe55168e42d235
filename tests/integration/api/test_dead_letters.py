"""Dead letters over HTTP: pages, causes, one with its history, redriving many; each owner's own."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from integration.api.callers import failed, problem, shape, submit
from support.api import ADMIN, ALICE, BOB, Api, MakeApi
from support.hands import Hands
from support.keyrings import ring
from support.workers import rows
from taskbell.producer.api.principal import Principal, Scope
from taskbell.shared import dead_letters
from taskbell.shared.sealing import Kind


async def test_pages_tell_every_letter_once_the_newest_first(api: Api, worker: Hands) -> None:
    ids = [str(await failed(api.client, worker)) for _ in range(5)]
    seen, pages, cursor = list[str](), 0, ""
    while cursor is not None:
        query = f"&cursor={cursor}" if cursor else ""
        page = (await api.client.get(f"/dead-letters?limit=2{query}")).json()
        seen += [each["task_id"] for each in page["dead_letters"]]
        cursor, pages = page["next"], pages + 1

    assert seen == ids[::-1]
    assert pages == 3


async def test_letters_are_narrowed_by_queue_type_and_cause(api: Api, worker: Hands) -> None:
    mail = await failed(api.client, worker, queue="mail", type="send", fingerprint="smtp")
    await failed(api.client, worker, queue="other", type="other", fingerprint="other")

    for narrowed in ("queue=mail", "type=send", "cause=smtp", "queue=mail&type=send&cause=smtp"):
        found = (await api.client.get(f"/dead-letters?{narrowed}")).json()["dead_letters"]
        assert [each["task_id"] for each in found] == [str(mail)], narrowed
    (letter,) = found
    assert (letter["cause"], letter["error"], letter["attempts"]) == ("smtp", "bad", 1)


async def test_an_owner_sees_and_moves_its_own_and_an_administrator_everybodys(
    api: Api, worker: Hands
) -> None:
    mine = str(await failed(api.client, worker))
    others = str(await failed(api.as_(BOB), worker))

    async def seen(principal: Principal, query: str = "") -> list[str]:
        page = (await api.as_(principal).get(f"/dead-letters{query}")).json()
        return [each["task_id"] for each in page["dead_letters"]]

    assert await seen(ALICE) == [mine]
    assert await seen(BOB) == [others]
    assert await seen(ADMIN) == [others, mine]
    assert await seen(ADMIN, "?owner_id=alice") == [mine]
    for body in ({"task_ids": [others]}, {"cause": "f"}):
        await api.client.post("/dead-letters/redrive", json=body)
        assert await seen(BOB) == [others]
    causes = (await api.as_(BOB).get("/dead-letters/causes")).json()["causes"]
    assert [(each["dead_letters"], each["example"]) for each in causes] == [(1, others)]


async def test_anothers_letter_cannot_be_told_from_a_missing_one(api: Api, worker: Hands) -> None:
    task_id = await failed(api.client, worker)
    bob = api.as_(BOB)

    others = await bob.get(f"/dead-letters/{task_id}")
    missing = await bob.get(f"/dead-letters/{uuid4()}")

    assert shape(others) == shape(missing)
    assert problem(others) == "not-found"


async def test_a_letter_tells_its_history_and_its_insides_to_operators_alone(
    api: Api, worker: Hands
) -> None:
    task_id = await failed(api.client, worker)
    reader = Principal("tbk_reader", "alice", frozenset({Scope.READ}))

    inside = (await api.client.get(f"/dead-letters/{task_id}")).json()
    outside = (await api.as_(reader).get(f"/dead-letters/{task_id}")).json()

    (attempt,) = inside["history"]
    assert (attempt["error"], attempt["traceback"], attempt["worker_id"]) == ("bad", "…", "w")
    assert outside["history"] == [{**attempt, "traceback": None, "worker_id": None}]
    assert {**outside, "history": None} == {**inside, "history": None}


async def test_causes_are_counted_the_most_frequent_first(api: Api, worker: Hands) -> None:
    for fingerprint in ("rare", "often", "often"):
        await failed(api.client, worker, fingerprint=fingerprint, error=f"the {fingerprint} one")

    found = (await api.client.get("/dead-letters/causes")).json()["causes"]

    assert [(each["cause"], each["dead_letters"], each["error"]) for each in found] == [
        ("often", 2, "the often one"), ("rare", 1, "the rare one"),
    ]  # fmt: skip


async def sealed_failure(api: Api, worker: Hands, reason: str) -> UUID:
    """A task of ALICE's whose error is sealed, as a consumer with the same keys leaves it."""
    seals = api.parts.seals
    assert seals is not None
    task_id = await submit(api.client)
    await seals.learn(api.parts.connections, owner_ids=["alice"])
    text = seals.for_task(task_id, "alice").seal_text(Kind.ERROR, reason)
    await worker.fail(task_id, error=text)
    return task_id


async def test_sealed_errors_are_opened_for_their_owner_and_named_so_without_the_keys(
    make_api: MakeApi, worker: Hands
) -> None:
    api, blind = make_api(seal_keys=ring("k1")), make_api()
    task_id = await sealed_failure(api, worker, "the canary sings")

    async def errors(told: Api, principal: Principal) -> list[str]:
        client = told.as_(principal)
        page = (await client.get("/dead-letters")).json()["dead_letters"]
        causes = (await client.get("/dead-letters/causes")).json()["causes"]
        letter = (await client.get(f"/dead-letters/{task_id}")).json()
        return [
            page[0]["error"],
            causes[0]["error"],
            letter["error"],
            letter["history"][0]["error"],
        ]

    assert await errors(api, ALICE) == ["the canary sings"] * 4
    assert await errors(api, ADMIN) == ["the canary sings"] * 4
    assert await errors(blind, ALICE) == ["(sealed)"] * 4
    stream = (await api.client.get(f"/tasks/{task_id}/events")).text
    assert "the canary sings" in stream
    blind_stream = (await blind.client.get(f"/tasks/{task_id}/events")).text
    for told, error in ((api, "the canary sings"), (blind, "(sealed)")):
        assert (await told.client.get(f"/tasks/{task_id}")).json()["error"] == error
    assert '"error":"(sealed)"' in blind_stream


async def test_many_are_redriven_by_name_or_by_what_they_share_at_a_rate(
    api: Api, database_url: str, worker: Hands
) -> None:
    named = await failed(api.client, worker)
    shared = [await failed(api.client, worker, fingerprint="smtp") for _ in range(3)]

    by_name = await api.client.post("/dead-letters/redrive", json={"task_ids": [str(named)] * 2})
    by_cause = await api.client.post("/dead-letters/redrive", json={"cause": "smtp", "rate": 0.01})

    assert by_name.json() == {"redriven": 1, "more": False}
    assert by_cause.json() == {"redriven": 3, "more": False}
    due = rows(database_url, "SELECT task_id FROM taskbell.outbox ORDER BY publish_at")
    assert [row.task_id for row in due] == [named, *shared]
    (late,) = rows(
        database_url,
        "SELECT extract(epoch FROM max(publish_at) - clock_timestamp()) AS s FROM taskbell.outbox",
    )
    assert 100 < late.s <= 200


async def test_what_one_call_may_redrive_is_bounded_and_said(
    make_api: MakeApi, worker: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskbell.producer.api.routes.dead_letters.REDRIVEN_AT_MOST", 2)
    api = make_api()
    for _ in range(3):
        await failed(api.client, worker)

    answers = [
        (await api.client.post("/dead-letters/redrive", json={"queue": "default"})).json()
        for _ in range(3)
    ]

    assert answers == [
        {"redriven": 2, "more": True},
        {"redriven": 1, "more": False},
        {"redriven": 0, "more": False},
    ]


async def test_what_dies_again_while_it_is_redriven_is_not_more_to_do(
    api: Api, worker: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await failed(api.client, worker)
    redrive_many = dead_letters.redrive_many

    async def redrive_and_fail(*given: Any, **rest: Any) -> list[UUID]:
        done = await redrive_many(*given, **rest)
        for task_id in done:
            await worker.fail(task_id)
        return done

    monkeypatch.setattr(dead_letters, "redrive_many", redrive_and_fail)
    answer = await api.client.post("/dead-letters/redrive", json={"queue": "default"})

    assert answer.json() == {"redriven": 2, "more": False}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"rate": 1},
        {"task_ids": []},
        {"task_ids": ["x"]},
        {"task_ids": None},
        {"task_ids": [str(uuid4())], "cause": "f"},
        {"cause": ""},
        {"cause": "f", "rate": 0},
        {"cause": "f", "unknown": 1},
    ],
)
async def test_a_body_that_names_nothing_or_too_much_is_refused(
    api: Api, body: dict[str, Any]
) -> None:
    refused = await api.client.post("/dead-letters/redrive", json=body)

    assert (refused.status_code, problem(refused)) == (422, "invalid-task")


async def test_a_cursor_of_another_filter_or_caller_is_refused(api: Api, worker: Hands) -> None:
    for client in (api.client, api.as_(BOB)):
        await failed(client, worker)
    cursor = (await api.client.get("/dead-letters?limit=1")).json()["next"]

    for refused in (
        await api.client.get(f"/dead-letters?queue=default&cursor={cursor}"),
        await api.as_(BOB).get(f"/dead-letters?cursor={cursor}"),
        await api.client.get(f"/tasks?cursor={cursor}"),
    ):
        assert (refused.status_code, problem(refused)) == (400, "invalid-cursor")


async def test_only_an_administrator_may_name_an_owner(api: Api) -> None:
    assert problem(await api.client.get("/dead-letters?owner_id=bob")) == "forbidden"
    assert (await api.client.get("/dead-letters?owner_id=alice")).status_code == 200
    for nobody in ("", "x" * 200, "%C3%BC" * 100):
        page = await api.as_(ADMIN).get(f"/dead-letters?owner_id={nobody}")
        assert page.json() == {"dead_letters": [], "next": None}
    for refused in ("x" * 201, "%C3%BC" * 101, "%00"):
        answer = await api.as_(ADMIN).get(f"/dead-letters?owner_id={refused}")
        assert problem(answer) == "invalid-task"
