"""What an effect asks of a transaction, in one form for all kinds of sessions and connections.

An effect is a plan: a generator that yields what is to be done and is told how it went. Sync and
async differ only in the two loops here, which do what a plan asks.
"""

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Protocol, TypeVar

import psycopg

from taskbell.shared.statement import Statement

Isolation = Literal["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]

T = TypeVar("T")
H_co = TypeVar("H_co", covariant=True)

_CONFLICTS = {"40001", "40P01"}
# What the server answers when it has certainly rolled back: data, integrity, conflict, a trigger.
_REFUSALS = {"22", "23", "40", "P0"}
_UNREACHABLE = {"08", "53", "57", "58"}


class Ask(Enum):
    """What can be asked besides running a statement."""

    OPEN = "begin"
    FLUSH = "send what the session still holds back"
    COMMIT = "commit"
    ROLLBACK = "roll back, and give the connection back"
    RETURN = "give the connection back after a commit"
    DISCARD = "break the connection: nobody knows what became of its transaction"


@dataclass(frozen=True, slots=True)
class Run:
    """Run a statement of ours and answer its rows."""

    statement: Statement
    parameters: dict[str, object]


Command = Ask | Run
Plan = Generator[Command, Any, T]


class AsyncTransaction(Protocol[H_co]):
    """One transaction; errors of our own statements and of the commit are psycopg's."""

    @property
    def handed(self) -> H_co:
        """What the handler writes through."""
        ...

    async def do(self, command: Command) -> Any:
        """Do what a plan asks."""
        ...


class Transaction(Protocol[H_co]):
    """The same for a thread."""

    @property
    def handed(self) -> H_co:
        """What the handler writes through."""
        ...

    def do(self, command: Command) -> Any:
        """Do what a plan asks."""
        ...


async def follow_async(plan: Plan[T], transaction: AsyncTransaction[object]) -> T:
    """Do what the plan asks until it ends; what it raises is raised."""
    try:
        command = next(plan)
        while True:
            try:
                answer = await transaction.do(command)
            except BaseException as error:  # noqa: BLE001 - the plan decides about each
                command = plan.throw(error)
            else:
                command = plan.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def follow(plan: Plan[T], transaction: Transaction[object]) -> T:
    """Do the same in a thread."""
    try:
        command = next(plan)
        while True:
            try:
                answer = transaction.do(command)
            except BaseException as error:  # noqa: BLE001 - the plan decides about each
                command = plan.throw(error)
            else:
                command = plan.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def sqlstate(error: BaseException) -> str | None:
    """Return the server's code, also of an error that SQLAlchemy wrapped."""
    found: object = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    return found if isinstance(found, str) else None


def is_conflict(error: BaseException) -> bool:
    """Whether the transaction only met another one, and may be repeated."""
    return sqlstate(error) in _CONFLICTS


def is_refusal(error: BaseException) -> bool:
    """Whether the server said that a commit did not take place."""
    return (sqlstate(error) or "")[:2] in _REFUSALS


def is_away(error: BaseException) -> bool:
    """Whether the database could not be asked."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] in _UNREACHABLE
