"""Large and offered payloads submitted over HTTP, on a directory."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from support.api import BOB, Api, MakeApi
from taskbell.shared.database import conninfo
from taskbell.shared.storage.location import owner_segment

LARGE = {"text": "x" * 100_000}


def _rows(url: str) -> list[Any]:
    with (
        psycopg.connect(conninfo(url)) as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        return cursor.execute("SELECT * FROM taskbell.task ORDER BY id").fetchall()


@pytest.fixture
def api(make_api: MakeApi, tmp_path: Path) -> Api:
    return make_api(storage_url=tmp_path.as_uri())


def _offer(directory: Path, owner_id: str, content: bytes) -> str:
    path = f"client/{owner_segment(owner_id)}/order-17"
    (directory / path).parent.mkdir(parents=True)
    (directory / path).write_bytes(content)
    return f"{path}#sha256={sha256(content).hexdigest()}&size={len(content)}"


async def test_a_large_payload_is_stored_and_a_small_one_is_not(
    api: Api, database_url: str
) -> None:
    large = await api.client.post("/tasks", json={"type": "noop", "payload": LARGE})
    small = await api.client.post("/tasks", json={"type": "noop", "payload": {"n": 1}})

    assert (large.status_code, small.status_code) == (201, 201)
    first, second = _rows(database_url)
    assert first["payload"] is None
    assert large.json()["task_id"].replace("-", "") in first["payload_location"]
    assert (second["payload"], second["payload_location"]) == ({"n": 1}, None)


async def test_a_repeated_large_payload_is_the_same_task(api: Api, database_url: str) -> None:
    asked = {"type": "noop", "payload": LARGE, "idempotency_key": "order-17"}

    first = await api.client.post("/tasks", json=asked)
    second = await api.client.post("/tasks", json=asked)
    other = await api.client.post("/tasks", json={**asked, "payload": {**LARGE, "n": 1}})

    assert [each.status_code for each in (first, second, other)] == [201, 200, 422]
    assert first.json() == second.json()
    assert len(_rows(database_url)) == 1


async def test_a_batch_mixes_all_kinds(api: Api, database_url: str, tmp_path: Path) -> None:
    location = _offer(tmp_path, "alice", b'{"offered": true}')
    tasks = [
        {"type": "a", "payload": LARGE},
        {"type": "b", "payload": 1},
        {"type": "c", "payload_location": location},
    ]

    answer = await api.client.post("/tasks/batch", json={"tasks": tasks})

    assert answer.status_code == 201
    rows = {row["type"]: row for row in _rows(database_url)}
    assert rows["a"]["payload_location"].startswith("payload/")
    assert rows["b"]["payload"] == 1
    assert rows["c"]["payload_location"] == location


async def test_a_refused_payload_of_a_batch_is_named(api: Api, database_url: str) -> None:
    tasks = [{"type": "a", "payload": LARGE}, {"type": "b", "payload": {"x": ["\x00"]}}]

    answer = await api.client.post("/tasks/batch", json={"tasks": tasks})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/tasks/1/payload/x/0"
    assert _rows(database_url) == []


async def test_an_offered_object_must_be_the_callers_and_be_there(
    api: Api, database_url: str, tmp_path: Path
) -> None:
    location = _offer(tmp_path, "alice", b"{}")
    path, _, told = location.partition("#")
    segment = owner_segment("alice")
    wrong = [
        location.replace("size=2", "size=3"),
        f"{path}-another#{told}",
        f"client/{segment}/../{segment}/order-17#{told}",
        f"payload/{segment}/order-17#{told}",
        path,
        f"file:///etc/passwd#{told}",
    ]

    refused = [
        await api.client.post("/tasks", json={"type": "noop", "payload_location": each})
        for each in wrong
    ]
    foreign = await api.as_(BOB).post("/tasks", json={"type": "noop", "payload_location": location})
    taken = await api.client.post("/tasks", json={"type": "noop", "payload_location": location})

    for answer in (*refused, foreign):
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == "/payload_location"
    assert taken.status_code == 201
    assert [row["payload_location"] for row in _rows(database_url)] == [location]


async def test_what_is_refused_is_not_stored(api: Api, tmp_path: Path) -> None:
    answer = await api.client.post(
        "/tasks", json={"type": "noop", "payload": LARGE, "queue": "amq.direct"}
    )

    assert answer.status_code == 422
    assert _files(tmp_path) == []


def _files(directory: Path) -> list[Path]:
    return [each for each in directory.rglob("*") if each.is_file()]
