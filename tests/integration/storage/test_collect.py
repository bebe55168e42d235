"""The collector: what no row names goes, in time; what one names, and what is not ours, stays."""

import asyncio
import socket
from uuid import UUID

import pytest

from services.guarded import LOOPBACK
from support.factories import make_tasks
from support.hands import Hands, hands
from support.stores import Stand, s3_environment
from support.waiting import PATIENCE
from support.workers import Reports, rows
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.events import LeasesReaped
from taskbell.shared.ids import new_task_id
from taskbell.shared.maintenance import collect
from taskbell.shared.maintenance.caretaker import Caretaker
from taskbell.shared.maintenance.collect import (
    Collect,
    ObjectsCollected,
    ObjectsNotCollected,
    StorageOfAnother,
)
from taskbell.shared.storage import Location, Storage


async def object_of(stand: Stand, task_id: UUID, kind: str = "payload", owner: str = "") -> str:
    return await stand.storage.put(
        "result" if kind == "result" else "payload", task_id, owner, b"{}"
    )


def path_of(location: str) -> str:
    return Location.read(location).path


def name_in_row(url: str, task_id: UUID, kind: str, location: str) -> None:
    assert rows(
        url,
        f"UPDATE taskbell.task SET {kind} = NULL, {kind}_location = %s WHERE id = %s RETURNING id",
        location,
        task_id,
    )


async def test_what_no_row_names_goes_and_what_one_names_stays(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    task_ids = make_tasks(database_url, 2)
    payload = await object_of(stand, task_ids[0])
    result = await object_of(stand, task_ids[1], "result")
    name_in_row(database_url, task_ids[0], "payload", payload)
    name_in_row(database_url, task_ids[1], "result", result)
    replaced = await object_of(stand, task_ids[0])  # another object of a task that is there
    rolled_back = await object_of(stand, new_task_id(), owner="alice")
    lost_result = await object_of(stand, new_task_id(), "result")

    done = await Collect(stand.storage, keep=0, grace=0).run_once(connection)

    assert done == ObjectsCollected(3)
    assert stand.holds(path_of(payload))
    assert stand.holds(path_of(result))
    assert not any(stand.holds(path_of(each)) for each in (replaced, rolled_back, lost_result))


async def test_a_young_object_stays_for_its_transaction_may_still_commit(
    stand: Stand, connection: DedicatedConnection
) -> None:
    location = await object_of(stand, new_task_id())

    assert await Collect(stand.storage, grace=0).run_once(connection) is None
    assert stand.holds(path_of(location))


async def test_an_object_that_a_reader_may_still_hold_stays_for_a_while(
    file_stand: Stand, connection: DedicatedConnection
) -> None:
    location = await object_of(file_stand, new_task_id())
    patient = Collect(file_stand.storage, keep=0, grace=3600)
    brief = Collect(file_stand.storage, keep=0, grace=1e-9)

    for _ in range(3):
        assert await patient.run_once(connection) is None
    assert await brief.run_once(connection) is None  # it has only now been seen
    assert file_stand.holds(path_of(location))
    assert await brief.run_once(connection) == ObjectsCollected(1)


async def test_nothing_that_we_did_not_write_is_touched(
    stand: Stand, connection: DedicatedConnection
) -> None:
    others = ["client/_/a", "payload/_/notes.txt", "payload/notes.txt", "result/_/a/b", "else/a"]
    for path in others:
        stand.write(path, b"")

    assert await Collect(stand.storage, keep=0, grace=0).run_once(connection) is None
    assert all(map(stand.holds, others))


async def test_a_root_of_another_database_is_left_alone(
    stand: Stand, connection: DedicatedConnection
) -> None:
    await stand.storage.belongs_to("another/1")
    location = await object_of(stand, new_task_id())

    done = await Collect(stand.storage, keep=0, grace=0).run_once(connection)

    assert done == StorageOfAnother()
    assert stand.holds(path_of(location))


async def test_a_round_goes_on_where_the_last_run_ended(
    file_stand: Stand, connection: DedicatedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_BATCH", 4)
    locations = [await object_of(file_stand, new_task_id()) for _ in range(10)]
    duty = Collect(file_stand.storage, keep=0, grace=0)

    done = [await duty.run_once(connection) for _ in range(2)]
    between = await duty.pause(connection)
    done.append(await duty.run_once(connection))

    assert done == [ObjectsCollected(4), ObjectsCollected(4), ObjectsCollected(2)]
    assert (between, await duty.pause(connection)) == (0.0, duty.interval)
    assert not any(file_stand.holds(path_of(each)) for each in locations)


async def test_a_storage_that_is_away_is_told_and_asked_again(
    file_stand: Stand, connection: DedicatedConnection
) -> None:
    duty = Collect(file_stand.storage, keep=0, grace=0)
    await duty.run_once(connection)
    file_stand.remove("taskbell")
    file_stand.remove_root()

    assert isinstance(await duty.run_once(connection), ObjectsNotCollected)
    assert file_stand.directory is not None
    file_stand.directory.mkdir()
    await object_of(file_stand, new_task_id())

    assert await duty.run_once(connection) == ObjectsCollected(1)


async def test_leases_are_reaped_while_the_storage_keeps_the_collector_waiting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tasks(database_url)
    reports = Reports()
    with socket.socket() as silent:
        silent.bind((LOOPBACK, 0))
        silent.listen(100)
        silent.settimeout(PATIENCE)
        endpoint = f"http://{LOOPBACK}:{silent.getsockname()[1]}"
        for variable, value in s3_environment(endpoint).items():
            monkeypatch.setenv(variable, value)
        storage = Storage.at("s3://bucket", inline_bytes=64, deadline=3600.0)
        caretaker = Caretaker(Database(database_url), reports, keep_days=7, storage=storage)
        caring = asyncio.ensure_future(caretaker.run())
        try:
            # Once somebody connects, the collector waits for an answer that never comes.
            client, _ = await asyncio.to_thread(silent.accept)
            with client:
                await _lose_a_lease(database_url)
                await reports.some(LeasesReaped)
        finally:
            caring.cancel()
            await asyncio.wait({caring})
            await caretaker.close()

    assert reports.of(ObjectsNotCollected) == []


async def _lose_a_lease(url: str) -> None:
    async with hands(url) as worker:
        assert await _claimed(worker)
    rows(url, "UPDATE taskbell.lease SET expires_at = clock_timestamp() - interval '1 minute'")


async def _claimed(worker: Hands) -> bool:
    return bool(await worker.claim())
