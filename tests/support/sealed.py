"""Keys, tasks that are sealed with them, and what the database keeps of those."""

import json
from typing import Any, Final
from uuid import UUID

from support.factories import make_tasks
from support.keyrings import ring, seals_of
from support.workers import rows
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.sealing import Kind, Seals, TaskSeal

CANARY: Final = "canary-4111-1111"
"""What is nowhere in the clear."""
OLD, NEW, FOREIGN = ring("k1"), ring("k2"), ring("k3")


def seal_of(seals: Seals, task_id: UUID, owner_id: str = "") -> TaskSeal:
    """A task's seal; by the ring, unless these seals know a key of the owner's."""
    if seals.unknown_owners([owner_id]):
        seals.note_owners([owner_id], [])
    return seals.for_task(task_id, owner_id)


def make_sealed(
    url: str,
    payload: object,
    *,
    seals: Seals | None = None,
    owner_id: str = "",
    due: bool = True,
    **options: Any,
) -> UUID:
    """Commit a waiting task whose payload is sealed; by ``OLD`` unless told."""
    (task_id,) = make_tasks(url, delay=3600, **options)
    seal = seal_of(seals or seals_of("k1"), task_id, owner_id)
    rows(
        url,
        "UPDATE taskbell.task SET payload = NULL, payload_sealed = %s, owner_id = %s WHERE id = %s",
        seal.seal(Kind.PAYLOAD, json.dumps(payload).encode()), owner_id, task_id,
    )  # fmt: skip
    if due:
        make_due(url, task_id)
    return task_id


def make_due(url: str, task_id: UUID) -> None:
    """Let a waiting task be claimed."""
    rows(
        url, "UPDATE taskbell.outbox SET publish_at = clock_timestamp() WHERE task_id = %s", task_id
    )


def result_of(url: str, task_id: UUID, seals: Seals | None = None) -> Any:
    """A task's sealed result, opened."""
    (row,) = rows(
        url, "SELECT owner_id, result, result_sealed FROM taskbell.task WHERE id = %s", task_id
    )
    assert row.result is None
    opened = (seals or seals_of("k1")).open(Kind.RESULT, task_id, row.owner_id, row.result_sealed)
    return json.loads(opened)


def everything(url: str) -> str:
    """Every row of every table of ours, as text; bytes as hex and as what they spell."""
    tables = rows(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'taskbell'")
    told: list[str] = []
    for table in tables:
        for row in rows(url, f"SELECT * FROM taskbell.{table.tablename}"):
            told += [
                value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row
            ]
    return "\n".join(told)


async def give_data_key(url: str, owner_id: str) -> tuple[str, Seals]:
    """Give an owner a key of its own; returns its id and seals that know it."""
    seals = seals_of("k1")
    key_id, wrapped = seals.new_data_key(owner_id)
    rows(
        url, "INSERT INTO taskbell.data_key (key_id, owner_id, wrapped) VALUES (%s, %s, %s)",
        key_id, owner_id, wrapped,
    )  # fmt: skip
    connection = DedicatedConnection(Database(url), "test")
    await seals.learn(connection, [owner_id])
    await connection.close()
    return key_id, seals


def erase_data_key(url: str, owner_id: str) -> None:
    """Make whatever the owner's key sealed unreadable."""
    rows(
        url,
        "UPDATE taskbell.data_key SET wrapped = NULL, erased_at = clock_timestamp() "
        "WHERE owner_id = %s",
        owner_id,
    )
