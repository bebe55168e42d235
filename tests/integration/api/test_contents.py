"""Payloads and results over HTTP: opened, linked or handed out, for their owner alone."""

import json
from typing import Any
from uuid import UUID

import httpx2

from services.guarded import LOOPBACK
from support.api import ADMIN, ALICE, BOB, MakeApi, served
from support.factories import make_tasks
from support.keyrings import ring, seals_of
from support.sealed_tasks import PAYLOAD, RESULT, make_sealed
from support.stores import Stand, http
from support.waiting import PATIENCE
from support.workers import rows
from taskbell.producer.api.front import RequestFailed
from taskbell.producer.api.problems import KINDS
from taskbell.shared import owner_keys
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.storage import Location

MIB = 1024 * 1024
LARGE = b'{"n": "' + b"x" * 70_000 + b'"}'


def alices(url: str, result: str | None = "[2]") -> UUID:
    """A completed task of alice's."""
    (task_id,) = make_tasks(url, payload={"n": 1})
    rows(
        url,
        "UPDATE taskbell.task SET owner_id = 'alice', status = 'COMPLETED', "
        "finished_at = clock_timestamp(), result = %s WHERE id = %s",
        result,
        task_id,
    )
    rows(url, "DELETE FROM taskbell.outbox WHERE task_id = %s", task_id)
    return task_id


async def stored(stand: Stand, url: str, body: bytes = LARGE) -> tuple[UUID, str]:
    task_id = alices(url)
    location = await stand.storage.put("payload", task_id, "alice", body)
    rows(
        url,
        "UPDATE taskbell.task SET payload = NULL, payload_location = %s WHERE id = %s",
        location,
        task_id,
    )
    return task_id, location


async def test_what_is_kept_in_the_row_is_answered(database_url: str, make_api: MakeApi) -> None:
    client = make_api().client
    task_id = alices(database_url)

    payload = await client.get(f"/tasks/{task_id}/payload")
    result = await client.get(f"/tasks/{task_id}/result")

    assert (payload.json(), result.json()) == ({"n": 1}, [2])
    assert payload.headers["content-type"] == "application/json"
    assert payload.headers["cache-control"] == "no-store"


async def test_a_task_without_a_result_says_so(database_url: str, make_api: MakeApi) -> None:
    task_id = alices(database_url, result=None)

    answer = await make_api().client.get(f"/tasks/{task_id}/result")

    assert answer.status_code == 404
    assert "no result" in answer.json()["detail"]


async def test_what_is_sealed_is_opened(
    stand: Stand, database_url: str, make_api: MakeApi, connection: DedicatedConnection
) -> None:
    seals = seals_of("k")
    await owner_keys.create(connection, seals, "alice", actor="me")
    inline = await make_sealed(database_url, connection, seals, "alice")
    apart = await make_sealed(database_url, connection, seals, "alice", stand.storage)
    api = make_api(seal_keys=ring("k"), storage_url=stand.url)

    for task_id in (inline, apart):
        for of, expected in (("payload", PAYLOAD), ("result", RESULT)):
            answer = await api.client.get(f"/tasks/{task_id}/{of}")
            assert (answer.status_code, answer.content) == (200, expected)
            assert (await api.as_(ADMIN).get(f"/tasks/{task_id}/{of}")).content == expected


async def test_an_object_is_linked_and_the_link_opens_without_credentials(
    s3_stand: Stand, database_url: str, make_api: MakeApi
) -> None:
    task_id, _ = await stored(s3_stand, database_url)
    api = make_api(storage_url=s3_stand.url, api_link_seconds=77)

    answer = await api.client.get(f"/tasks/{task_id}/payload")

    assert (answer.status_code, answer.content) == (307, b"")
    assert "X-Amz-Expires=77" in answer.headers["location"]
    assert http("GET", answer.headers["location"]) == LARGE


async def test_a_file_is_handed_out_by_the_interface_itself(
    file_stand: Stand, database_url: str, make_api: MakeApi
) -> None:
    task_id, _ = await stored(file_stand, database_url)

    answer = await make_api(storage_url=file_stand.url).client.get(f"/tasks/{task_id}/payload")

    assert (answer.status_code, answer.content) == (200, LARGE)


async def test_more_contents_than_fit_into_memory_are_told_to_come_back(
    file_stand: Stand, database_url: str, make_api: MakeApi
) -> None:
    apart, _ = await stored(file_stand, database_url)
    api = make_api(storage_url=file_stand.url, api_content_bytes=MIB)
    room = api.parts.room

    taken = await room.take(MIB)
    refused = [
        await api.client.get(f"/tasks/{each}/payload") for each in (apart, alices(database_url))
    ]
    room.give(taken)
    answered = await api.client.get(f"/tasks/{apart}/payload")

    for answer in refused:
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:taskbell:problem:overloaded"
        assert int(answer.headers["retry-after"]) > 0
    assert answered.content == LARGE
    assert room.free == MIB


async def test_a_content_has_its_room_until_its_reader_has_it(
    file_stand: Stand, database_url: str, make_api: MakeApi
) -> None:
    size = 32 * MIB  # more than the system's buffers take
    task_id, _ = await stored(file_stand, database_url, b"1" * size)
    api = make_api(storage_url=file_stand.url)
    room = api.parts.room
    whole = room.free
    async with served(api) as port, httpx2.AsyncClient(timeout=PATIENCE) as client:
        url = f"http://{LOOPBACK}:{port}/tasks/{task_id}/payload"
        async with client.stream("GET", url, headers=api.doorman.header_of(ALICE)) as answer:
            meanwhile = room.free
            read = sum([len(piece) async for piece in answer.aiter_bytes()])

    assert read == size
    assert meanwhile == whole - size
    assert room.free == whole


async def _answers(api: Any, task_id: UUID) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for of in ("payload", "result"):
        answer = await api.client.get(f"/tasks/{task_id}/{of}")
        found.append((answer.status_code, json.loads(answer.content).get("type", "")))
    return found


async def test_what_an_erased_key_sealed_is_gone(
    stand: Stand, database_url: str, make_api: MakeApi, connection: DedicatedConnection
) -> None:
    seals = seals_of("k")
    await owner_keys.create(connection, seals, "alice", actor="me")
    inline = await make_sealed(database_url, connection, seals, "alice")
    apart = await make_sealed(database_url, connection, seals, "alice", stand.storage)
    await owner_keys.erase(connection, "alice", actor="me")
    api = make_api(seal_keys=ring("k"), storage_url=stand.url)

    for task_id in (inline, apart):
        assert await _answers(api, task_id) == [(410, "urn:taskbell:problem:erased")] * 2
        shown = await api.client.get(f"/tasks/{task_id}")
        assert (shown.json()["result"], shown.json()["error"]) == (None, "(unreadable: erased)")


async def test_anothers_content_is_not_found_whether_or_not_it_is_there(
    stand: Stand, database_url: str, make_api: MakeApi
) -> None:
    task_id, _ = await stored(stand, database_url)
    api = make_api(storage_url=stand.url)
    bodies: set[str] = set()

    for each in (str(task_id), "01990000-0000-7000-8000-000000000001", "no-id"):
        for of in ("payload", "result"):
            answer = await api.as_(BOB).get(f"/tasks/{each}/{of}")
            assert answer.status_code == 404
            bodies.add(json.dumps(answer.json() | {"instance": ""}))

    assert len(bodies) == 1
    assert ALICE.owner_id != BOB.owner_id


async def test_a_missing_or_changed_object_is_told_to_operators_alone(
    stand: Stand, database_url: str, make_api: MakeApi
) -> None:
    missing, gone = await stored(stand, database_url)
    changed, _ = await stored(stand, database_url, b'{"n": 2}')
    stand.remove(Location.read(gone).path)
    rows(
        database_url,
        "UPDATE taskbell.task SET payload_location = 'nowhere' WHERE id = %s",
        changed,
    )
    api = make_api(storage_url=stand.url)

    for task_id, reason in ((missing, "missing"), (changed, "changed")):
        answer = await api.client.get(f"/tasks/{task_id}/payload")
        assert (answer.status_code, answer.json()["detail"]) == (500, KINDS["internal"].title)
        told = [each for each in api.events if isinstance(each, RequestFailed)]
        assert (told[-1].error_class, told[-1].reason) == ("Unreadable", reason)


async def test_a_storage_that_is_away_or_not_set_is_503(
    file_stand: Stand, database_url: str, make_api: MakeApi
) -> None:
    task_id, location = await stored(file_stand, database_url)
    away = make_api(storage_url=file_stand.url)
    file_stand.remove(Location.read(location).path)
    file_stand.remove_root()

    for api in (away, make_api()):
        answer = await api.client.get(f"/tasks/{task_id}/payload")
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (
            503, "storage-away",
        )  # fmt: skip
        assert int(answer.headers["retry-after"]) >= 1
