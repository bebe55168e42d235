"""Owners' own keys: once erased, nothing that they sealed can be read; others' can."""

from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest

from support.hands import hands
from support.sealed_tasks import ALL, content_of, make_sealed, seals_of
from support.stores import Stand
from support.workers import rows
from taskbell.producer import NewTask, Producer
from taskbell.shared import owner_keys
from taskbell.shared.database import DedicatedConnection, conninfo
from taskbell.shared.errors import IdempotencyConflict
from taskbell.shared.resealing import Resealing, remaining

NOTHING = "(unreadable: erased)"


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[DedicatedConnection]:
    async with hands(database_url, "operator") as ours:
        yield ours.connection


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
    await make_sealed(database_url, connection, seals, "bob")
    key_id = await owner_keys.create(connection, seals, "alice", actor="me")
    assert key_id is not None

    before = await remaining(connection, stand.storage, "alice", key_id)
    await Resealing(connection, seals_of("k"), stand.storage, owner_id="alice").run(actor="me")

    assert (before, await remaining(connection, stand.storage, "alice", key_id)) == (6, 0)


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
