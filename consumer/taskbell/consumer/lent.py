"""The worker's seals, lent to the processes of its isolated handlers.

A process is told the key of its own task. A follow-up is sealed with a key of its own, for which
the worker is asked. It answers for the owner of the attempt alone, and for no id that another task
has: so neither the ring, nor keys of owners, nor any that opens another task leave the worker.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from taskbell.consumer.leases import Lease
from taskbell.shared.database import Rows
from taskbell.shared.errors import DatabaseAway, Lost, Unreadable
from taskbell.shared.sealing import Seals, TaskSeal
from taskbell.shared.sealing.envelope import KEY_BYTES

Verb = Literal["unknown_owners", "note_owners", "for_task"]


@dataclass(frozen=True, slots=True)
class Lend:
    """What a child asks of the worker's seals."""

    verb: Verb
    given: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Lent:
    """The answer, or why there is none."""

    answer: Any = field(default=None, repr=False)
    unnoted: bool = False
    """The owner was not asked for, or too long ago."""
    lost: Lost | None = None
    refused: bool = False
    """It was of another owner than the attempt's."""


Ask = Callable[[Lend], Lent]


class LentSeals(Seals):
    """Seals as a producer in a child uses them; they open nothing.

    Each verb raises ``PermissionError`` for another owner than the attempt's.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def unknown_owners(self, owner_ids: Iterable[str]) -> list[str]:
        """Return those that the worker does not know."""
        unknown: list[str] = self._asked("unknown_owners", list(owner_ids))
        return unknown

    def note_owners(self, asked: Sequence[str], rows: Rows) -> None:
        """Tell the worker."""
        self._asked("note_owners", list(asked), rows)

    def for_task(self, task_id: UUID, owner_id: str) -> TaskSeal:
        """Return the seal of one task; raises ``LookupError`` and ``Unreadable``."""
        seal: TaskSeal = self._asked("for_task", task_id, owner_id)
        return seal

    def _asked(self, verb: Verb, *given: Any) -> Any:
        said = self._ask(Lend(verb, given))
        if said.refused:
            raise PermissionError("an isolated handler seals for the owner of its task alone")
        if said.lost is not None:
            raise Unreadable(said.lost)
        if said.unnoted:
            raise LookupError("the owner's key was not asked for, or too long ago")
        return said.answer


def lent(lease: Lease, asked: Lend) -> Lent:
    """Answer what the child that runs this attempt asked; for the thread that waits for it."""
    seals = lease.told.seals
    if seals is None:
        return Lent(lost="key unknown")
    if not _owners(asked) <= {lease.context.owner_id}:
        return Lent(refused=True)
    try:
        return Lent(_answer(seals, lease, asked))
    except Unreadable as error:
        return Lent(lost=error.reason)
    except (DatabaseAway, TimeoutError):
        return Lent(lost="key unknown")
    except LookupError:
        return Lent(unnoted=True)


def _owners(asked: Lend) -> set[str]:
    match asked.verb:
        case "unknown_owners":
            return set(asked.given[0])
        case "note_owners":
            owner_ids, rows = asked.given
            return {*owner_ids, *(row.owner_id for row in rows)}
        case "for_task":
            return {asked.given[1]}


def _answer(seals: Seals, lease: Lease, asked: Lend) -> Any:
    if asked.verb == "unknown_owners":
        return seals.unknown_owners(*asked.given)
    if asked.verb == "note_owners":
        return seals.note_owners(*asked.given)
    task_id, owner_id = asked.given
    seal = seals.for_task(task_id, owner_id)
    is_there = lease.told.is_there
    if task_id != lease.task_id and (is_there is None or is_there(task_id)):
        # Enqueued again it is left as it is, and what is sealed with this goes nowhere.
        return replace(seal, key=secrets.token_bytes(KEY_BYTES))
    return seal
