"""The audit finds whatever breaks an invariant, and nothing where all is well."""

import pytest

from support.factories import make_tasks
from support.hands import Hands
from support.workers import rows
from taskbell.shared import audit
from taskbell.shared.database import DedicatedConnection

LEASE = (
    "INSERT INTO taskbell.lease (task_id, queue, worker_id, attempt, expires_at, partition_key) "
    "SELECT id, queue, 'w', 1, clock_timestamp() + interval '1 minute', partition_key "
    "FROM taskbell.task WHERE status = 'PENDING' ORDER BY partition_seq DESC NULLS LAST LIMIT 1"
)

BREAKS = {
    "DELETE FROM taskbell.outbox": {"I1 live task without entry or lease"},
    LEASE: {
        "I1 entry and lease", "I1 lease of a task that does not run", "I2 lease of another attempt",
        "I4 two heads of one partition",
    },
    "DELETE FROM taskbell.task WHERE status = 'PENDING'": {"I1 entry of a task that does not wait"},
    "UPDATE taskbell.lease SET attempt = 5": {"I2 lease of another attempt"},
    "UPDATE taskbell.task SET status = 'PENDING', finished_at = NULL WHERE status = 'FAILED'": {
        "I1 live task without entry or lease", "I3 dead letter of a task that has not failed",
    },
    "DELETE FROM taskbell.dead_letter": {"I3 failed task without dead letter"},
    "UPDATE taskbell.outbox SET parked = false": {"I4 two heads of one partition"},
    "INSERT INTO taskbell.held_partition SELECT queue, partition_key, task_id FROM taskbell.outbox "
    "WHERE partition_key IS NOT NULL LIMIT 1": {
        "I4 head of a held partition", "I4 partition held by a task that did not end badly",
    },
}  # fmt: skip


@pytest.fixture
async def life(database_url: str, worker: Hands) -> None:
    """One task of each kind: waiting, running, dead, completed, and a partition of two."""
    waiting, running, dead, completed = make_tasks(database_url, 4)
    await worker.complete(await worker.claim_ids([completed]))
    await worker.fail(dead)
    await worker.claim_ids([running])
    make_tasks(database_url, 2, partition_key="k")
    await worker.promote()
    assert waiting


@pytest.mark.usefixtures("life")
async def test_where_all_is_well_nothing_is_found(connection: DedicatedConnection) -> None:
    assert await audit.look(connection) == []
    assert await audit.look_for_neglect(connection, 0.0) == []


@pytest.mark.usefixtures("life")
@pytest.mark.parametrize("damage", BREAKS, ids=lambda damage: damage[:40])
async def test_what_breaks_an_invariant_is_found(
    database_url: str, connection: DedicatedConnection, damage: str
) -> None:
    rows(database_url, damage)

    assert {each.finding for each in await audit.look(connection)} == BREAKS[damage]


@pytest.mark.usefixtures("life")
async def test_tasks_are_read_range_by_range(
    database_url: str, connection: DedicatedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_BATCH", 2)
    rows(database_url, "DELETE FROM taskbell.outbox")

    assert len(await audit.look(connection)) == 3


@pytest.mark.usefixtures("life")
async def test_what_nobody_maintains_is_found_if_it_stays_so(
    database_url: str, connection: DedicatedConnection
) -> None:
    rows(database_url, "DELETE FROM taskbell.outbox WHERE partition_key = 'k' AND NOT parked")
    rows(database_url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")

    found = {each.finding for each in await audit.look_for_neglect(connection, 0.01)}

    assert found == {"I4 partition waits without a head", "lease expired and not reaped"}
