"""What a command shows of content that is sealed or stored: opened, if the environment says how."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from taskbell.shared import dead_letters, tasks
from taskbell.shared.cli.ending import fail
from taskbell.shared.connections import Runner
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.dead_letters import Cause, DeadLetter, FailedAttempt, Inspection
from taskbell.shared.errors import StorageAway, Unreadable
from taskbell.shared.kept import Kept, value_of
from taskbell.shared.limits import PAYLOAD_BYTES
from taskbell.shared.sealing import SEALED, Kind, Seals, is_sealed, opened_text
from taskbell.shared.settings import open_storage
from taskbell.shared.whereabouts import Whereabouts

if TYPE_CHECKING:  # its library is an extra
    from taskbell.shared.storage import Storage

__all__ = [
    "open_causes",
    "open_inspection",
    "open_letters",
    "open_payload",
    "open_whereabouts",
    "ring",
]


def ring() -> Seals | None:
    """The keys of ``TASKBELL_SEAL_KEYS`` or its file, if they are set; bad ones end the command."""
    keys, file = os.environ.get("TASKBELL_SEAL_KEYS"), os.environ.get("TASKBELL_SEAL_KEYS_FILE")
    try:
        return Seals.of(keys or None, Path(file) if file else None)
    except ValueError as error:
        fail(str(error), code=2)


def _storage() -> "Storage | None":
    try:
        # Only read from.
        return open_storage(os.environ.get("TASKBELL_STORAGE_URL"), PAYLOAD_BYTES)
    except ValueError as error:
        fail(str(error), code=2)


async def open_whereabouts(runner: Runner, found: Whereabouts, seals: Seals | None) -> Whereabouts:
    """Open the error of a task."""
    await _learn(runner, seals, [found.error_message])
    error = opened_text(seals, Kind.ERROR, found.task_id, found.owner_id, found.error_message)
    return replace(found, error_message=error)


async def open_payload(runner: Runner, found: Whereabouts, seals: Seals | None) -> object:
    """Return a task's payload, wherever it is kept; or why it cannot be had here."""
    kept = await tasks.payload_of(runner, found.task_id)
    if kept is None:
        return "(the task is gone)"
    if kept.location is None:
        return await _value_of(runner, found, kept, seals, None)
    store = _storage()
    if store is None:
        return f"(at {kept.location}: set TASKBELL_STORAGE_URL to see it)"
    return await _value_of(runner, found, kept, seals, store)


async def _value_of(
    runner: Runner, found: Whereabouts, kept: Kept, seals: Seals | None, storage: "Storage | None"
) -> object:
    try:
        return await value_of(
            kept, Kind.PAYLOAD, found.task_id, runner=runner, seals=seals, storage=storage
        )
    except Unreadable as error:
        if seals is None and error.reason == "key unknown":
            return "(sealed: set TASKBELL_SEAL_KEYS or TASKBELL_SEAL_KEYS_FILE to see it)"
        return f"(unreadable: {error.reason})"
    except StorageAway as error:
        return f"(at {kept.location}: {error})"
    except (ValueError, RecursionError):  # a client's object: nobody looked into it
        return f"(at {kept.location}: it is not JSON, or nested too deeply)"


async def open_letters(
    runner: Runner, letters: Sequence[DeadLetter], seals: Seals | None
) -> list[DeadLetter]:
    """Open the error of each."""
    await _learn(runner, seals, [each.last_error for each in letters])
    return [
        replace(
            each,
            last_error=opened_text(seals, Kind.ERROR, each.task_id, each.owner_id, each.last_error),
        )
        for each in letters
    ]


async def open_inspection(runner: Runner, found: Inspection, seals: Seals | None) -> Inspection:
    """Open a dead letter's error and those of every attempt."""
    (letter,) = await open_letters(runner, [found.letter], seals)
    await _learn(runner, seals, [each.error for each in found.history])
    history = (
        _open_attempt(each, letter.task_id, letter.owner_id, seals) for each in found.history
    )
    return Inspection(letter, tuple(history))


async def open_causes(
    connection: DedicatedConnection, causes: Sequence[Cause], seals: Seals | None
) -> list[Cause]:
    """Open the error of each cause's example."""
    return [await _open_cause(connection, each, seals) for each in causes]


async def _open_cause(connection: DedicatedConnection, cause: Cause, seals: Seals | None) -> Cause:
    if cause.example is None or not is_sealed(cause.last_error):
        return cause
    # Whose the example is stands in its letter alone.
    found = None if seals is None else await dead_letters.show(connection, cause.example)
    if found is None:
        return replace(cause, last_error=SEALED)
    (letter,) = await open_letters(connection, [found.letter], seals)
    return replace(cause, last_error=letter.last_error)


def _open_attempt(
    each: FailedAttempt, task_id: UUID, owner_id: str, seals: Seals | None
) -> FailedAttempt:
    return replace(
        each,
        error=opened_text(seals, Kind.ERROR, task_id, owner_id, each.error),
        traceback=opened_text(seals, Kind.TRACEBACK, task_id, owner_id, each.traceback),
    )


async def _learn(runner: Runner, seals: Seals | None, texts: Iterable[str | None]) -> None:
    if seals is not None:
        await seals.learn(runner, sealed=texts)
