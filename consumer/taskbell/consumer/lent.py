"""The worker's seals, lent to the processes of its isolated handlers.

A process is told the key of its own task and no other. A follow-up is sealed with a key of its own,
for which the worker is asked; so neither the ring nor the keys of owners leave the worker.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from taskbell.shared.database import Rows
from taskbell.shared.errors import Lost, Unreadable
from taskbell.shared.sealing import Seals, TaskSeal

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


Ask = Callable[[Lend], Lent]


class LentSeals(Seals):
    """Seals as a producer in a child uses them; they open nothing."""

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
        if said.lost is not None:
            raise Unreadable(said.lost)
        if said.unnoted:
            raise LookupError("the owner's key was not asked for, or too long ago")
        return said.answer


def lent(seals: Seals | None, asked: Lend) -> Lent:
    """Answer what a child asked."""
    if seals is None:
        return Lent(lost="key unknown")
    verbs: dict[Verb, Callable[..., Any]] = {
        "unknown_owners": seals.unknown_owners,
        "note_owners": seals.note_owners,
        "for_task": seals.for_task,
    }
    try:
        return Lent(verbs[asked.verb](*asked.given))
    except Unreadable as error:
        return Lent(lost=error.reason)
    except LookupError:
        return Lent(unnoted=True)
