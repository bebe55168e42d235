"""Owners' own keys: once erased, nothing that they sealed can be read; others' can."""

from dataclasses import replace

import psycopg
import pytest

from support.keyrings import seals_of
from support.sealed_tasks import ALL, content_of, make_sealed
from support.stores import Stand
from support.workers import rows
from taskbell.producer import NewTask, Producer
from taskbell.shared import owner_keys
from taskbell.shared.database import DedicatedConnection, conninfo
from taskbell.shared.errors import IdempotencyConflict, StorageAway
from taskbell.shared.ids import new_task_id
from taskbell.shared.remains import delete_unnamed, remaining
from taskbell.shared.resealing import Resealing
from taskbell.shared.sealing import Kind
from taskbell.shared.storage.location import Location, owner_segment

NOTHING = "(unreadable: erased)"


async def test_an_owner_has_one_key_at_a_time(connection: DedicatedConnection) -> None:
    seals = seals_of("k")

    first = await owner_keys.create(connection, seals, "alice", actor="me")
    assert first is not None
    assert await owner_keys.create(connection, seals, "alice", actor="me") is None
    assert await owner_keys.key_of(connection, "alice") == first
    assert await owner_keys.erase(connection, "alice", actor="me") == first
    second = await owner_keys.create(connection, seals, "alice", actor="me")

    assert second not in {None, first}


async def test_what_an_erased_key_sealed_is_unreadable_and_what_others_sealed_is_not(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    seals = seals_of("k")
    for owner in ("alice", "bob"):
        await owner_keys.create(connection, seals, owner, actor="me")
    alices, alices_stored, bobs, nobodys = [
        await make_sealed(database_url, connection, seals, owner, storage)
        for owner, storage in [
            ("alice", None), ("alice", stand.storage), ("bob", None), ("", stand.storage),
        ]
    ]  # fmt: skip

    await owner_keys.erase(connection, "alice", actor="me")

    fresh = seals_of("k")
    for task_id in (alices, alices_stored):
        content = await content_of(database_url, connection, fresh, task_id, stand.storage)
        assert (content.payload, content.result) == ("erased", "erased")
        assert content.texts == (NOTHING,) * 4
    for task_id in (bobs, nobodys):
        content = await content_of(database_url, connection, fresh, task_id, stand.storage)
        assert replace(content, key_ids=frozenset()) == ALL
    counts = await Resealing(connection, fresh, stand.storage, clear=True).run(actor="me")
    assert (counts.erased, counts.resealed, counts.is_done) == (12, 0, True)


async def test_the_key_itself_is_gone_and_its_row_says_when(
    database_url: str, connection: DedicatedConnection
) -> None:
    key_id = await owner_keys.create(connection, seals_of("k"), "alice", actor="me")
    await owner_keys.erase(connection, "alice", actor="you")

    (row,) = rows(database_url, "SELECT * FROM taskbell.data_key")
    assert (row.key_id, row.wrapped) == (key_id, None)
    assert row.erased_at >= row.created_at
    logged = rows(database_url, "SELECT actor, action, subject, detail FROM taskbell.audit_log")
    assert [tuple(each) for each in logged] == [
        ("me", "create-owner-key", "alice", {"key_id": key_id}),
        ("you", "erase-owner-key", "alice", {"key_id": key_id}),
    ]


async def test_erasing_twice_or_nobody_changes_nothing(
    database_url: str, connection: DedicatedConnection
) -> None:
    await owner_keys.create(connection, seals_of("k"), "alice", actor="me")
    await owner_keys.erase(connection, "alice", actor="me")
    before = rows(database_url, "SELECT * FROM taskbell.data_key")

    assert await owner_keys.erase(connection, "alice", actor="me") is None
    assert await owner_keys.erase(connection, "nobody", actor="me") is None
    assert rows(database_url, "SELECT * FROM taskbell.data_key") == before
    assert len(rows(database_url, "SELECT 1 FROM taskbell.audit_log")) == 2


async def test_what_would_outlive_a_key_is_counted(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    seals = seals_of("k")
    await make_sealed(database_url, connection, seals, "alice", stand.storage)
    await make_sealed(database_url, connection, seals, "bob", stand.storage)
    await owner_keys.create(connection, seals, "alice", actor="me")

    before = await remaining(connection, stand.storage, "alice")
    await Resealing(connection, seals_of("k"), stand.storage, owner_id="alice").run(actor="me")
    after = await remaining(connection, stand.storage, "alice")
    deleted = await delete_unnamed(connection, stand.storage, "alice")

    assert before == (6, 0)
    assert after == (0, 1), "the object that was sealed anew is left to the collector"
    assert deleted == 1
    assert await remaining(connection, stand.storage, "alice") == (0, 0)
    with pytest.raises(StorageAway, match="TASKBELL_STORAGE_URL"):
        await remaining(connection, None, "alice")


async def test_objects_that_no_row_names_are_counted_and_deleted_whoever_wrote_them(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    seals = seals_of("k")
    key_id = await owner_keys.create(connection, seals, "alice", actor="me")
    assert key_id is not None
    named = await make_sealed(database_url, connection, seals, "alice", stand.storage)
    await seals.learn(connection, ["alice"])
    new = new_task_id()
    ring, hers = seals_of("k"), seals.for_task(new, "alice")
    ring.note_owners(["alice"], [])
    sealed_by_ring = ring.for_task(new, "alice").seal(Kind.RESULT, b"1")
    sealed_by_hers = hers.seal(Kind.PAYLOAD, b"1")
    kept = [
        Location.read(await stand.storage.put("payload", new, "alice", sealed_by_hers)),
        Location.read(await stand.storage.put("payload", new, "bob", b"{}")),
        Location.read(rows(database_url, "SELECT payload_location AS at FROM taskbell.task "
                           "WHERE id = %s", named)[0].at),
    ]  # fmt: skip
    gone = [
        Location.read(await stand.storage.put("payload", new, "alice", b"{}")).path,
        Location.read(await stand.storage.put("result", new, "alice", sealed_by_ring)).path,
        f"client/{owner_segment('alice')}/forged",
        f"payload/{owner_segment('alice')}/of/nobody",
        f"payload/{owner_segment('alice')}/empty",
    ]
    for path, body in zip(gone[2:], [sealed_by_hers, b"{}", b""], strict=True):
        stand.write(path, body)
    taken = f"client/{owner_segment('alice')}/taken"
    stand.write(taken, b"{}")
    rows(database_url, "INSERT INTO taskbell.task (id, owner_id, type, queue, status, finished_at, "
         "payload_location) VALUES (%s, 'alice', 'noop', 'q', 'CANCELLED', clock_timestamp(), %s)",
         new, f"{taken}#sha256={'0' * 64}&size=2")  # fmt: skip

    assert await remaining(connection, stand.storage, "alice") == (1, len(gone))
    assert await delete_unnamed(connection, stand.storage, "alice") == len(gone)

    assert [stand.holds(path) for path in gone] == [False] * len(gone)
    assert all(stand.holds(each.path) for each in kept)
    assert stand.holds(taken)


async def test_nothing_is_deleted_from_the_storage_of_another_database(
    file_stand: Stand, connection: DedicatedConnection
) -> None:
    await owner_keys.create(connection, seals_of("k"), "alice", actor="me")
    file_stand.write("taskbell", b"somebody else's")
    left = f"client/{owner_segment('alice')}/left"
    file_stand.write(left, b"{}")

    with pytest.raises(StorageAway, match="another database"):
        await delete_unnamed(connection, file_stand.storage, "alice")

    assert file_stand.holds(left)


async def test_what_an_earlier_key_of_the_owner_sealed_does_not_count(
    database_url: str, connection: DedicatedConnection
) -> None:
    await owner_keys.create(connection, seals_of("k"), "alice", actor="me")
    await make_sealed(database_url, connection, seals_of("k"), "alice")
    await owner_keys.erase(connection, "alice", actor="me")
    await owner_keys.create(connection, seals_of("k"), "alice", actor="me")

    assert await remaining(connection, None, "alice") == (0, None)


async def test_no_hash_of_an_erased_request_confirms_a_guess(
    database_url: str, connection: DedicatedConnection
) -> None:
    await owner_keys.create(connection, seals_of("k"), "alice", actor="me")
    guess = NewTask("noop", {"pin": 1234}, idempotency_key="once", owner_id="alice")
    others = replace(guess, owner_id="bob")
    with psycopg.connect(conninfo(database_url)) as business:
        for each in (guess, others):
            Producer().enqueue(business, each)
        business.commit()

        await owner_keys.erase(connection, "alice", actor="me")

        with pytest.raises(IdempotencyConflict):
            Producer().enqueue(business, guess)
        assert not Producer().enqueue(business, others).created
