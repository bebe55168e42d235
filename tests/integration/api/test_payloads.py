"""Large and offered payloads submitted over HTTP, on a directory."""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pytest

from support.api import BOB, Api, MakeApi
from support.workers import rows
from taskbell.shared.errors import StorageAway
from taskbell.shared.storage import Storage
from taskbell.shared.storage.location import Stored, owner_segment

LARGE = {"text": "x" * 100_000}


TASKS = "SELECT * FROM taskbell.task ORDER BY id"


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
    first, second = rows(database_url, TASKS)
    assert first.payload is None
    assert large.json()["task_id"].replace("-", "") in first.payload_location
    assert (second.payload, second.payload_location) == ({"n": 1}, None)


async def test_a_repeated_large_payload_is_the_same_task(api: Api, database_url: str) -> None:
    asked = {"type": "noop", "payload": LARGE, "idempotency_key": "order-17"}

    first = await api.client.post("/tasks", json=asked)
    second = await api.client.post("/tasks", json=asked)
    other = await api.client.post("/tasks", json={**asked, "payload": {**LARGE, "n": 1}})

    assert [each.status_code for each in (first, second, other)] == [201, 200, 422]
    assert first.json() == second.json()
    assert len(rows(database_url, TASKS)) == 1


async def test_a_batch_mixes_all_kinds(api: Api, database_url: str, tmp_path: Path) -> None:
    location = _offer(tmp_path, "alice", b'{"offered": true}')
    tasks = [
        {"type": "a", "payload": LARGE},
        {"type": "b", "payload": 1},
        {"type": "c", "payload_location": location},
    ]

    answer = await api.client.post("/tasks/batch", json={"tasks": tasks})

    assert answer.status_code == 201
    kept = {row.type: row for row in rows(database_url, TASKS)}
    assert kept["a"].payload_location.startswith("payload/")
    assert kept["b"].payload == 1
    assert kept["c"].payload_location == location


async def test_a_refused_payload_of_a_batch_is_named(api: Api, database_url: str) -> None:
    tasks = [{"type": "a", "payload": LARGE}, {"type": "b", "payload": {"x": ["\x00"]}}]

    answer = await api.client.post("/tasks/batch", json={"tasks": tasks})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/tasks/1/payload/x/0"
    assert rows(database_url, TASKS) == []


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
    assert [row.payload_location for row in rows(database_url, TASKS)] == [location]


async def test_what_is_refused_is_not_stored(api: Api, tmp_path: Path) -> None:
    answer = await api.client.post(
        "/tasks", json={"type": "noop", "payload": LARGE, "queue": "amq.direct"}
    )

    assert answer.status_code == 422
    assert _files(tmp_path) == []


def _files(directory: Path) -> list[Path]:
    return [each for each in directory.rglob("*") if each.is_file()]


def _fill(url: str) -> None:
    rows(url, "INSERT INTO taskbell.queue (name, max_depth) VALUES ('default', 0) "
         "ON CONFLICT (name) DO UPDATE SET max_depth = 0")  # fmt: skip


class _Slow(Storage):
    """Before an object is written something else happens."""

    def __init__(self, api: Api, first: Callable[[], Awaitable[None]]) -> None:
        self.__dict__.update(vars(api.parts.storage))
        self._first = first
        self.written = 0
        object.__setattr__(api.parts, "storage", self)

    async def put(self, kind: Stored, task_id: UUID, owner_id: str, body: bytes) -> str:
        await self._first()
        self.written += 1
        return await super().put(kind, task_id, owner_id, body)


async def test_a_repeat_and_a_conflict_store_nothing(api: Api, tmp_path: Path) -> None:
    asked = {"type": "noop", "payload": LARGE, "idempotency_key": "order-17"}
    other = {**asked, "payload": {**LARGE, "n": 1}}
    await api.client.post("/tasks", json=asked)
    slow = _Slow(api, _nothing)

    again = await api.client.post("/tasks", json=asked)
    batch = await api.client.post("/tasks/batch", json={"tasks": [asked, {"type": "new"}, asked]})
    conflicts = [
        await api.client.post("/tasks", json=other),
        await api.client.post("/tasks/batch", json={"tasks": [{"type": "new"}, other]}),
    ]

    assert (again.status_code, batch.status_code) == (200, 201)
    assert [each["created"] for each in batch.json()["tasks"]] == [False, True, False]
    assert batch.json()["tasks"][2]["task_id"] == again.json()["task_id"]
    assert [each.status_code for each in conflicts] == [422, 422]
    assert conflicts[1].json()["errors"][0]["pointer"] == "/tasks/1/idempotency_key"
    assert slow.written == 0
    assert len(_files(tmp_path)) == 1


async def test_a_repeat_of_an_offered_object_needs_no_object_any_more(
    api: Api, tmp_path: Path
) -> None:
    location = _offer(tmp_path, "alice", b"{}")
    asked = {"type": "noop", "payload_location": location, "idempotency_key": "order-17"}
    first = await api.client.post("/tasks", json=asked)
    (tmp_path / location.partition("#")[0]).unlink()

    again = await api.client.post("/tasks", json=asked)

    assert (again.status_code, again.json()) == (200, first.json())


async def test_a_full_queue_stores_nothing_but_knows_its_tasks(
    api: Api, database_url: str, tmp_path: Path
) -> None:
    known = {"type": "noop", "payload": LARGE, "idempotency_key": "order-17"}
    new = {"type": "noop", "payload": LARGE}
    await api.client.post("/tasks", json=known)
    _fill(database_url)
    slow = _Slow(api, _nothing)

    one = await api.client.post("/tasks", json=new)
    many = await api.client.post("/tasks/batch", json={"tasks": [new, {"type": "b"}]})
    again = await api.client.post("/tasks", json=known)

    for answer in (one, many):
        assert answer.json()["type"].endswith("queue-full"), answer.text
        assert "retry-after" in answer.headers
    assert again.status_code == 200
    assert slow.written == 0
    assert len(_files(tmp_path)) == 1


@pytest.mark.parametrize("path", ["/tasks", "/tasks/batch"])
async def test_what_was_stored_for_a_birth_that_is_refused_is_deleted(
    api: Api, database_url: str, tmp_path: Path, path: str
) -> None:
    async def fill() -> None:
        _fill(database_url)

    slow = _Slow(api, fill)
    one = {"type": "noop", "payload": LARGE}

    refused = await api.client.post(path, json=one if path == "/tasks" else {"tasks": [one]})
    await api.parts.producer.sweeper.finish()

    assert refused.json()["type"].endswith("queue-full")
    assert slow.written == 1
    assert _files(tmp_path) == []


@pytest.mark.parametrize("path", ["/tasks", "/tasks/batch"])
async def test_what_was_stored_for_a_key_that_got_known_meanwhile_is_deleted(
    api: Api, database_url: str, tmp_path: Path, path: str
) -> None:
    asked = {"type": "noop", "payload": LARGE, "idempotency_key": "order-17"}
    overtaken = asyncio.Event()

    async def overtake() -> None:
        if not overtaken.is_set():
            overtaken.set()
            await api.client.post("/tasks", json=asked)

    slow = _Slow(api, overtake)

    known = await api.client.post(path, json=asked if path == "/tasks" else {"tasks": [asked]})
    await api.parts.producer.sweeper.finish()

    assert known.status_code == 200
    assert slow.written == 2
    (row,) = rows(database_url, TASKS)
    (file,) = _files(tmp_path)
    assert row.payload_location.startswith(str(file.relative_to(tmp_path)))


async def test_a_batch_stores_eight_at_once_and_deletes_them_if_one_cannot_be_stored(
    make_api: MakeApi, database_url: str, tmp_path: Path
) -> None:
    api = make_api(storage_url=tmp_path.as_uri(), storage_inline_bytes=1000)
    running: list[int] = []
    ended: list[int] = []

    async def wait() -> None:
        running.append(len(running) - len(ended) + 1)
        await asyncio.sleep(0)
        ended.append(1)
        if len(ended) == 20:
            raise StorageAway("full")

    slow = _Slow(api, wait)
    tasks = [{"type": "noop", "payload": "x" * 2000}] * 31

    answer = await api.client.post("/tasks/batch", json={"tasks": tasks})
    await api.parts.producer.sweeper.finish()

    assert answer.status_code == 503
    assert max(running) == 8
    assert (len(running), slow.written) == (24, 23), "the third eight, of which one was not written"
    assert _files(tmp_path) == []
    assert rows(database_url, TASKS) == []


async def _nothing() -> None:
    """Nothing happens."""
