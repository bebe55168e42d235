"""Sealing anew: then the old key may go; nothing that is written meanwhile is lost."""

import asyncio
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from support.factories import make_tasks
from support.keyrings import seals_of
from support.sealed_tasks import ALL, ERROR, PAYLOAD, RESULT, content_of, make_sealed
from support.stores import Stand
from support.waiting import wait_until
from support.workers import rows, task_of
from taskbell.shared import owner_keys
from taskbell.shared.database import DedicatedConnection, conninfo
from taskbell.shared.errors import StorageAway
from taskbell.shared.resealing import Resealing
from taskbell.shared.sealing import Kind, Seals
from taskbell.shared.sealing.envelope import key_id_of


async def test_after_resealing_the_old_key_may_go(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    old, both, new = seals_of("old"), seals_of("new", "old"), seals_of("new")
    await owner_keys.create(connection, old, "alice", actor="me")
    task_ids = [
        await make_sealed(database_url, connection, old, owner, storage)
        for owner in ("", "alice", "bob")
        for storage in (None, stand.storage)
    ]

    counts = await Resealing(connection, both, stand.storage).run(actor="me")

    # Six pieces of each task; alice's are sealed by her key, which alone is wrapped anew.
    assert (counts.tasks, counts.owner_keys, counts.resealed) == (6, 1, 4 * 6)
    for task_id in task_ids:
        content = await content_of(database_url, connection, new, task_id, stand.storage)
        assert replace(content, key_ids=frozenset()) == ALL
        assert "old" not in content.key_ids
    again = await Resealing(connection, new, stand.storage).run(actor="me")
    assert again.is_done
    assert again.tasks == 6


async def test_what_was_sealed_before_its_owner_had_a_key_is_sealed_by_it_afterwards(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    seals = seals_of("k")
    alices = await make_sealed(database_url, connection, seals, "alice", stand.storage)
    bobs = await make_sealed(database_url, connection, seals, "bob")
    key_id = await owner_keys.create(connection, seals, "alice", actor="me")

    fresh = seals_of("k")  # what a process knows 30 s later
    await Resealing(connection, fresh, stand.storage, owner_id="alice").run(actor="me")

    content = await content_of(database_url, connection, fresh, alices, stand.storage)
    assert content == replace(ALL, key_ids=frozenset({key_id}))
    untouched = await content_of(database_url, connection, fresh, bobs)
    assert untouched == replace(ALL, key_ids=frozenset({"k"}))


async def test_what_is_clear_is_sealed_only_if_asked_for(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    seals = seals_of("k")
    inline, stored = make_tasks(database_url, 2, payload={"n": 1})
    location = await stand.storage.put("payload", stored, "", PAYLOAD)
    rows(
        database_url,
        "UPDATE taskbell.task SET payload = NULL, payload_location = %s WHERE id = %s",
        location, stored,
    )  # fmt: skip
    rows(
        database_url,
        "UPDATE taskbell.task SET status = 'COMPLETED', finished_at = clock_timestamp(), "
        "result = '[2]', error_message = %s WHERE id = %s",
        ERROR, inline,
    )  # fmt: skip

    left = await Resealing(connection, seals, stand.storage).run(actor="me")
    assert left.is_done
    assert task_of(database_url, inline).payload == {"n": 1}
    counts = await Resealing(connection, seals, stand.storage, clear=True).run(actor="me")

    assert counts.resealed == 4
    row = task_of(database_url, inline)
    assert (row.payload, row.result) == (None, None)
    assert seals.open(Kind.PAYLOAD, inline, "", row.payload_sealed) == PAYLOAD
    assert seals.open(Kind.RESULT, inline, "", row.result_sealed) == RESULT
    assert ERROR not in row.error_message
    assert seals.open_text(Kind.ERROR, inline, "", row.error_message) == ERROR
    moved = await stand.storage.get(task_of(database_url, stored).payload_location)
    assert seals.open(Kind.PAYLOAD, stored, "", moved) == PAYLOAD
    assert await stand.storage.get(location) == PAYLOAD  # the collector's, once nobody reads it


async def blocked(url: str) -> None:
    question = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'taskbell operator' AND wait_event_type = 'Lock'"
    )
    await asyncio.to_thread(wait_until, "resealing waits", lambda: rows(url, question))


async def test_a_settlement_that_comes_first_stays_and_is_met_by_the_next_run(
    database_url: str, connection: DedicatedConnection
) -> None:
    task_id, seals = await _with_old_error(database_url, connection)
    seal = seals.for_task(task_id, "")
    settled = seal.seal_text(Kind.ERROR, "the next error")
    with psycopg.connect(conninfo(database_url)) as settling:
        settling.execute(
            "UPDATE taskbell.task SET error_message = %s WHERE id = %s", (settled, task_id)
        )
        running = asyncio.ensure_future(Resealing(connection, seals, None).run(actor="me"))
        await blocked(database_url)
    counts = await running

    assert (counts.changed, counts.resealed) == (1, 0)
    assert task_of(database_url, task_id).error_message == settled
    assert (await Resealing(connection, seals, None).run(actor="me")).is_done


async def test_a_settlement_of_another_column_does_not_stop_resealing(
    database_url: str, connection: DedicatedConnection
) -> None:
    task_id, seals = await _with_old_error(database_url, connection)
    result = seals.for_task(task_id, "").seal(Kind.RESULT, RESULT)
    with psycopg.connect(conninfo(database_url)) as settling:
        settling.execute(
            "UPDATE taskbell.task SET result_sealed = %s WHERE id = %s", (result, task_id)
        )
        running = asyncio.ensure_future(Resealing(connection, seals, None).run(actor="me"))
        await blocked(database_url)
    counts = await running

    assert counts.resealed == 1
    row = task_of(database_url, task_id)
    assert row.result_sealed == result
    assert key_id_of(row.error_message) == "new"


async def _with_old_error(url: str, connection: DedicatedConnection) -> tuple[UUID, Seals]:
    """A task with an error that an old key sealed, and a ring with a new one."""
    (task_id,) = make_tasks(url)
    old = seals_of("old")
    await old.learn(connection, [""])
    text = old.for_task(task_id, "").seal_text(Kind.ERROR, ERROR)
    rows(url, "UPDATE taskbell.task SET error_message = %s WHERE id = %s", text, task_id)
    return task_id, seals_of("new", "old")


async def test_a_key_that_is_not_in_the_ring_is_counted_and_nothing_is_lost(
    database_url: str, connection: DedicatedConnection
) -> None:
    lost = await make_sealed(database_url, connection, seals_of("lost"))
    before = task_of(database_url, lost)

    counts = await Resealing(connection, seals_of("new"), None, clear=True).run(actor="me")

    assert (counts.unreadable, counts.resealed, counts.is_done) == (6, 0, False)
    assert task_of(database_url, lost) == before


async def test_a_changed_piece_is_counted_and_left_as_it_is(
    database_url: str, connection: DedicatedConnection
) -> None:
    task_id = await make_sealed(database_url, connection, seals_of("old"))
    rows(
        database_url,
        "UPDATE taskbell.task SET payload_sealed = set_byte(payload_sealed, "
        "length(payload_sealed) - 1, 255 - get_byte(payload_sealed, length(payload_sealed) - 1))",
    )
    broken = task_of(database_url, task_id).payload_sealed

    counts = await Resealing(connection, seals_of("new", "old"), None).run(actor="me")

    assert (counts.unreadable, counts.resealed) == (1, 5)
    assert task_of(database_url, task_id).payload_sealed == broken


async def test_a_run_that_was_stopped_goes_on_from_where_it_was(
    stand: Stand, database_url: str, connection: DedicatedConnection
) -> None:
    old, both = seals_of("old"), seals_of("new", "old")
    first = await make_sealed(database_url, connection, old)
    second = await make_sealed(database_url, connection, old, storage=stand.storage)

    with pytest.raises(StorageAway):
        await Resealing(connection, both, None).run(actor="me")
    rest = Resealing(connection, both, stand.storage, after=first)
    counts = await rest.run(actor="me")

    assert (counts.tasks, rest.after) == (1, second)
    content = await content_of(database_url, connection, both, first)
    assert content.key_ids == {"new"}


async def test_every_run_is_in_the_audit_log(
    database_url: str, connection: DedicatedConnection
) -> None:
    await make_sealed(database_url, connection, seals_of("old"), "alice")

    await Resealing(connection, seals_of("new", "old"), None, owner_id="alice").run(actor="me")

    logged = rows(
        database_url, "SELECT actor, action, subject, detail FROM taskbell.audit_log ORDER BY id"
    )
    assert [tuple(each) for each in logged] == [
        ("me", "reseal", "alice", {"key_id": "new", "clear": False}),
        ("me", "resealed", "alice", {"key_id": "new", "resealed": 6}),
    ]
