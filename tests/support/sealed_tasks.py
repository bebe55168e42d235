"""Tasks whose every piece is sealed, made the short way, and what can be read of them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from support.workers import rows
from taskbell.shared.connections import Runner
from taskbell.shared.errors import Unreadable
from taskbell.shared.ids import new_task_id
from taskbell.shared.sealing import Kind, Seals
from taskbell.shared.sealing.envelope import from_text, key_id_of
from taskbell.shared.storage import Storage

PAYLOAD, RESULT, ERROR, TRACEBACK = b'{"n": 1}', b"[2]", "it broke", "line 1\nline 2"


async def make_sealed(
    url: str, runner: Runner, seals: Seals, owner_id: str = "", storage: Storage | None = None
) -> UUID:
    """Commit a failed task with a result; its payload is stored if there is a storage."""
    await seals.learn(runner, [owner_id])
    task_id = new_task_id()
    seal = seals.for_task(task_id, owner_id)
    payload = seal.seal(Kind.PAYLOAD, PAYLOAD)
    location = None
    if storage is not None:
        location = await storage.put("payload", task_id, owner_id, payload)
    error = seal.seal_text(Kind.ERROR, ERROR)
    rows(
        url,
        """
        WITH t AS (
            INSERT INTO taskbell.task (id, owner_id, type, queue, status, attempt_count,
                                       finished_at, payload_sealed, payload_location,
                                       result_sealed, error_message)
            VALUES (%s, %s, 'noop', 'default', 'FAILED', 1, clock_timestamp(), %s, %s, %s, %s)
            RETURNING *
        ), d AS (
            INSERT INTO taskbell.dead_letter (task_id, failed_at, attempt_count, owner_id, queue,
                                              type, last_error)
            SELECT id, finished_at, 1, owner_id, queue, type, error_message FROM t
        )
        INSERT INTO taskbell.failure (task_id, attempt, outcome, error, traceback)
        SELECT id, 1, 'fail', error_message, %s FROM t
        """,
        task_id,
        owner_id,
        None if location else payload,
        location,
        seal.seal(Kind.RESULT, RESULT),
        error,
        seal.seal_text(Kind.TRACEBACK, TRACEBACK),
    )
    return task_id


@dataclass(frozen=True)
class Content:
    """What of a task can be read, or why not; and the ids of the keys that sealed it."""

    payload: bytes | str
    result: bytes | str
    texts: tuple[str | None, ...]
    """Error, the dead letter's, the failure's, and its traceback."""
    key_ids: frozenset[str | None]


ALL = Content(PAYLOAD, RESULT, (ERROR, ERROR, ERROR, TRACEBACK), frozenset())


async def content_of(
    url: str, runner: Runner, seals: Seals, task_id: UUID, storage: Storage | None = None
) -> Content:
    """Open every piece of such a task."""
    (row,) = rows(
        url,
        "SELECT t.*, d.last_error, f.error, f.traceback FROM taskbell.task t "
        "JOIN taskbell.dead_letter d ON d.task_id = t.id "
        "JOIN taskbell.failure f ON f.task_id = t.id WHERE t.id = %s",
        task_id,
    )
    payload: bytes = row.payload_sealed
    if row.payload_location is not None:
        assert storage is not None
        payload = await storage.get(row.payload_location)
    kinds = [(row.error_message, Kind.ERROR), (row.last_error, Kind.ERROR),
             (row.error, Kind.ERROR), (row.traceback, Kind.TRACEBACK)]  # fmt: skip
    sealed = [payload, row.result_sealed, *(from_text(text) for text, _ in kinds)]
    await seals.learn(runner, [row.owner_id], sealed)
    return Content(
        _opened(seals, Kind.PAYLOAD, row, payload),
        _opened(seals, Kind.RESULT, row, row.result_sealed),
        tuple(seals.open_text(kind, row.id, row.owner_id, text) for text, kind in kinds),
        frozenset(None if each is None else key_id_of(each) for each in sealed),
    )


def _opened(seals: Seals, kind: Kind, row: Any, sealed: bytes) -> bytes | str:
    try:
        return seals.open(kind, row.id, row.owner_id, sealed)
    except Unreadable as error:
        return error.reason
