"""Tasks submitted over HTTP: one, many, known ones and refused ones."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from support.api import ADMIN, BOB, Api
from support.workers import rows
from taskbell.producer.api.line import key_of


def _rows(url: str) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows(url, "SELECT * FROM taskbell.task ORDER BY id")]


async def test_a_task_is_created_once_and_known_afterwards(api: Api, database_url: str) -> None:
    asked = {"type": "noop", "payload": {"n": 1}, "idempotency_key": "order-17"}

    first = await api.client.post("/tasks", json=asked)
    second = await api.client.post("/tasks", json=asked)

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.json()["status"] == "PENDING"
    assert first.headers["location"] == f"/tasks/{first.json()['task_id']}"
    assert [str(row["id"]) for row in _rows(database_url)] == [first.json()["task_id"]]


async def test_everything_a_task_may_be_told_arrives(api: Api, database_url: str) -> None:
    asked = {
        "type": "send receipt",
        "payload": {"ä": [1, 2.5, None, True]},
        "queue": "mails.eu",
        "priority": 9,
        "max_attempts": 7,
        "partition_key": "Kunde ä",
        "correlation_id": "order-17",
        "scheduled_at": "2031-01-31T12:00:00+02:00",
    }

    answer = await api.client.post("/tasks", json=asked)

    assert answer.status_code == 201
    (row,) = _rows(database_url)
    told = {name: row[name] for name in asked if name != "scheduled_at"}
    told["partition_key"] = key_of(row["owner_id"], row["partition_key"])
    assert told == {name: asked[name] for name in told}
    assert row["partition_key"] != asked["partition_key"]  # nobody else's line
    assert row["scheduled_at"].isoformat() >= "2031-01-31"
    assert row["owner_id"] == "alice"
    assert str(row["id"]) == answer.json()["task_id"]


async def test_null_stands_for_what_is_not_said(api: Api, database_url: str) -> None:
    unsaid = dict.fromkeys(
        ("payload", "payload_location", "queue", "priority", "max_attempts", "partition_key",
         "correlation_id", "idempotency_key", "delay", "scheduled_at")
    )  # fmt: skip

    answer = await api.client.post("/tasks", json={"type": "noop", **unsaid})

    assert answer.status_code == 201
    (row,) = _rows(database_url)
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("default", 5, 5)


async def test_the_same_key_with_another_body_is_refused_and_names_the_first_task(
    api: Api, database_url: str
) -> None:
    asked = {"type": "noop", "idempotency_key": "order-17"}
    first = await api.client.post("/tasks", json=asked)

    answer = await api.client.post("/tasks", json={**asked, "payload": 1})

    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:taskbell:problem:idempotency-conflict"
    assert answer.json()["task_id"] == first.json()["task_id"]
    assert "order-17" not in answer.text
    assert len(_rows(database_url)) == 1


async def test_a_key_belongs_to_its_owner(api: Api, database_url: str) -> None:
    asked = {"type": "noop", "idempotency_key": "order-17"}

    answers = [await each.post("/tasks", json=asked) for each in (api.client, api.as_(BOB))]

    assert [answer.status_code for answer in answers] == [201, 201]
    assert [row["owner_id"] for row in _rows(database_url)] == ["alice", "bob"]


async def test_header_and_body_key_must_agree(api: Api, database_url: str) -> None:
    asked = {"type": "noop"}
    header = {"Idempotency-Key": "order-17"}

    by_header = await api.client.post("/tasks", json=asked, headers=header)
    by_body = await api.client.post("/tasks", json={**asked, "idempotency_key": "order-17"})
    by_both = await api.client.post(
        "/tasks", json={**asked, "idempotency_key": "order-17"}, headers=header
    )
    differing = await api.client.post(
        "/tasks", json={**asked, "idempotency_key": "order-18"}, headers=header
    )
    doubled = await api.client.post(
        "/tasks", json=asked, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    )

    assert [each.status_code for each in (by_header, by_body, by_both)] == [201, 200, 200]
    assert by_header.json() == by_body.json() == by_both.json()
    assert [each.status_code for each in (differing, doubled)] == [422, 422]
    assert differing.json()["errors"][0]["pointer"] == "/idempotency_key"
    assert len(_rows(database_url)) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "ä"])
async def test_a_header_key_that_cannot_be_one_is_refused(api: Api, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode())]

    answer = await api.client.post("/tasks", json={"type": "noop"}, headers=headers)

    assert answer.status_code == 422


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({"payload": 1}, "/type"),
    "an empty type": ({"type": ""}, "/type"),
    "a type of another script": ({"type": "прийом"}, "/type"),
    "a type that is too long": ({"type": "x" * 201}, "/type"),
    "a type that is a number": ({"type": 1}, "/type"),
    "an unknown field": ({"type": "noop", "retries": 3}, "/retries"),
    "a queue RabbitMQ keeps": ({"type": "noop", "queue": "amq.direct"}, "/queue"),
    "a queue that is a list": ({"type": "noop", "queue": "a,b"}, "/queue"),
    "a priority that is true": ({"type": "noop", "priority": True}, "/priority"),
    "a priority as text": ({"type": "noop", "priority": "5"}, "/priority"),
    "a broken priority": ({"type": "noop", "priority": 5.5}, "/priority"),
    "too high a priority": ({"type": "noop", "priority": 10}, "/priority"),
    "no tries": ({"type": "noop", "max_attempts": 0}, "/max_attempts"),
    "a delay as text": ({"type": "noop", "delay": "5"}, "/delay"),
    "a negative delay": ({"type": "noop", "delay": -1}, "/delay"),
    "an instant without zone": (
        {"type": "noop", "scheduled_at": "2030-01-31T12:00:00"}, "/scheduled_at",
    ),
    "an instant as a number": ({"type": "noop", "scheduled_at": 1900000000}, "/scheduled_at"),
    "an instant as digits": ({"type": "noop", "scheduled_at": "1900000000"}, "/scheduled_at"),
    "a day": ({"type": "noop", "scheduled_at": "2030-01-31"}, "/scheduled_at"),
    "an instant in a century": (
        {"type": "noop", "scheduled_at": "2130-01-31T12:00:00Z"}, "/scheduled_at",
    ),
    "delay and instant": (
        {"type": "noop", "delay": 1, "scheduled_at": "2030-01-31T12:00:00Z"}, "/delay",
    ),
    "too long a partition key": ({"type": "noop", "partition_key": "x" * 121}, "/partition_key"),
    "too long a key": ({"type": "noop", "idempotency_key": "x" * 256}, "/idempotency_key"),
    "NUL in a key": ({"type": "noop", "idempotency_key": "a\x00"}, "/idempotency_key"),
    "another owner": ({"type": "noop", "owner_id": "bob"}, "/owner_id"),
    "an object in no storage": (
        {"type": "noop", "payload_location": "client/_/x"}, "/payload_location",
    ),
    "NUL": ({"type": "noop", "payload": {"a": ["\x00"]}}, "/payload/a/0"),
    "an integer of 65 bits": ({"type": "noop", "payload": {"a": 2**64}}, "/payload/a"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
async def test_what_breaks_a_rule_is_refused_with_its_place(
    api: Api, database_url: str, why: str
) -> None:
    asked, pointer = REFUSED[why]

    answer = await api.client.post("/tasks", json=asked)

    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "urn:taskbell:problem:invalid-task"
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]
    assert _rows(database_url) == []


RAW: dict[str, tuple[str, str]] = {
    "a lone surrogate": ('{"type":"noop","payload":{"a":"\\ud800"}}', "/payload/a"),
    "a surrogate as a name": ('{"type":"\\ud800"}', "/type"),
    "a surrogate as a field": ('{"type":"noop","\\ud800":1}', ""),
    "not a number": ('{"type":"noop","payload":[NaN]}', "/payload/0"),
    "infinity": ('{"type":"noop","payload":[1e400]}', "/payload/0"),
    "101 levels": (
        '{"type":"noop","payload":' + "[" * 101 + "]" * 101 + "}",
        "/payload" + "/0" * 100,
    ),
    "a million levels": ("[" * 1_000_000, ""),
    "no object": ("[]", ""),
}


@pytest.mark.parametrize("why", RAW)
async def test_json_that_cannot_be_stored_is_refused_with_its_place(api: Api, why: str) -> None:
    content, pointer = RAW[why]
    headers = {"Content-Type": "application/json"}

    answer = await api.client.post("/tasks", content=content, headers=headers)

    assert answer.status_code == 422, answer.text
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


async def test_one_hundred_levels_and_sixty_four_bits_are_taken(
    api: Api, database_url: str
) -> None:
    content = '{"type":"noop","payload":' + "[" * 99 + "[9223372036854775807]" + "]" * 99 + "}"

    answer = await api.client.post(
        "/tasks", content=content, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 201, answer.text
    assert json.dumps(_rows(database_url)[0]["payload"]) in content


async def test_five_as_a_float_is_five(api: Api, database_url: str) -> None:
    content = '{"type":"noop","priority":7.0,"max_attempts":3.0,"delay":0}'

    answer = await api.client.post(
        "/tasks", content=content, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 201, answer.text
    (row,) = _rows(database_url)
    assert (row["priority"], row["max_attempts"]) == (7, 3)


async def test_a_batch_is_answered_in_its_order(api: Api, database_url: str) -> None:
    known = await api.client.post("/tasks", json={"type": "b", "idempotency_key": "b"})
    tasks = [{"type": "a"}, {"type": "b", "idempotency_key": "b"}, {"type": "c", "payload": [1]}]

    answer = await api.client.post("/tasks/batch", json={"tasks": tasks})

    assert answer.status_code == 201
    answers = answer.json()["tasks"]
    assert [each["created"] for each in answers] == [True, False, True]
    assert answers[1]["task_id"] == known.json()["task_id"]
    types = {str(row["id"]): row["type"] for row in _rows(database_url)}
    assert [types[each["task_id"]] for each in answers] == ["a", "b", "c"]


async def test_a_batch_of_known_tasks_creates_nothing(api: Api) -> None:
    tasks = {"tasks": [{"type": "a", "idempotency_key": str(n)} for n in range(3)]}
    first = await api.client.post("/tasks/batch", json=tasks)

    second = await api.client.post("/tasks/batch", json=tasks)

    assert (first.status_code, second.status_code) == (201, 200)
    ids = [[each["task_id"] for each in answer.json()["tasks"]] for answer in (first, second)]
    assert ids[0] == ids[1]


async def test_a_batch_is_all_or_nothing(api: Api, database_url: str) -> None:
    await api.client.post("/tasks", json={"type": "first", "idempotency_key": "taken"})
    conflicting = [{"type": "a"}, {"type": "another", "idempotency_key": "taken"}]
    invalid = [{"type": "a"}, {"type": "b", "payload": {"x": ["\x00"]}}]

    conflict = await api.client.post("/tasks/batch", json={"tasks": conflicting})
    refusal = await api.client.post("/tasks/batch", json={"tasks": invalid})

    assert conflict.status_code == refusal.status_code == 422
    assert conflict.json()["errors"][0]["pointer"] == "/tasks/1/idempotency_key"
    assert refusal.json()["errors"][0]["pointer"] == "/tasks/1/payload/x/0"
    assert [row["type"] for row in _rows(database_url)] == ["first"]


async def test_a_batch_that_contradicts_itself_names_no_task_that_was_taken_back(
    api: Api, database_url: str
) -> None:
    tasks = [{"type": name, "idempotency_key": "one"} for name in ("a", "b")]

    conflict = await api.client.post("/tasks/batch", json={"tasks": tasks})

    assert (conflict.status_code, "task_id" in conflict.json()) == (422, False)
    assert [each["pointer"] for each in conflict.json()["errors"]] == [
        "/tasks/0/idempotency_key",
        "/tasks/1/idempotency_key",
    ]
    assert _rows(database_url) == []


@pytest.mark.parametrize(
    ("content", "pointer", "said"),
    [
        ("[]", "", "must be an object"),
        ('{"type": "a", "kind": 1}', "/kind", "is unknown here"),
        ("{}", "/type", "is needed"),
    ],
)
async def test_faults_are_named_in_the_words_of_json(
    api: Api, content: str, pointer: str, said: str
) -> None:
    answer = await api.client.post(
        "/tasks", content=content, headers={"Content-Type": "application/json"}
    )

    assert answer.json()["errors"] == [{"pointer": pointer, "detail": said}]


@pytest.mark.parametrize("tasks", [[], [{"type": "a"}] * 1001, {}, None])
async def test_a_batch_holds_one_to_a_thousand(api: Api, tasks: object) -> None:
    answer = await api.client.post("/tasks/batch", json={"tasks": tasks})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/tasks"


async def test_a_batch_takes_no_key_of_its_own(api: Api) -> None:
    answer = await api.client.post(
        "/tasks/batch", json={"tasks": [{"type": "a"}]}, headers={"Idempotency-Key": "x"}
    )

    assert answer.status_code == 422


async def test_a_task_is_shown_to_its_owner_alone(api: Api) -> None:
    made = await api.client.post("/tasks", json={"type": "noop", "correlation_id": "order-17"})
    path = made.headers["location"]

    shown = await api.client.get(path)
    missing = await api.client.get(f"/tasks/{uuid4()}")
    foreign = await api.as_(BOB).get(path)
    administered = await api.as_(ADMIN).get(path)

    assert shown.json() == administered.json()
    assert (shown.json()["status"], shown.json()["correlation_id"]) == ("PENDING", "order-17")
    assert (missing.status_code, foreign.status_code) == (404, 404)
    assert {**missing.json(), "instance": ""} == {**foreign.json(), "instance": ""}


@pytest.mark.parametrize(
    "named",
    ["x", "0", "%00", "{01980b1c-8d4e-7cc3-98c4-dc0c0c07398f}", "01980b1c8d4e7cc398c4dc0c0c07398f"],
)
async def test_what_is_no_id_names_no_task(api: Api, named: str) -> None:
    answer = await api.client.get(f"/tasks/{named}")

    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:taskbell:problem:not-found"


async def test_an_id_may_be_written_in_capitals(api: Api) -> None:
    made = await api.client.post("/tasks", json={"type": "noop"})

    answer = await api.client.get(f"/tasks/{made.json()['task_id'].upper()}")

    assert UUID(answer.json()["task_id"]) == UUID(made.json()["task_id"])


async def test_a_batch_that_can_never_be_admitted_is_told_so(api: Api, database_url: str) -> None:
    rows(
        database_url,
        "INSERT INTO taskbell.rate_limit (scope, name, rate, burst, tokens)"
        " VALUES ('owner', 'alice', 1, 2, 2)",
    )

    answer = await api.client.post("/tasks/batch", json={"tasks": [{"type": "a"}] * 3})

    assert answer.status_code == 429
    assert "burst" in answer.json()["detail"]
    assert answer.json()["limited"] == "owner"
    assert answer.headers["retry-after"].isdecimal()
