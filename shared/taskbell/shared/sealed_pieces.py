"""The pieces of a task that may be sealed, and which of them want another seal. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from taskbell.shared.sealing import Kind
from taskbell.shared.sealing.envelope import key_id_of

__all__ = ["Column", "Kept", "Piece", "pieces_of", "wants"]


class Kept(Enum):
    """How a column keeps its content."""

    SEALED = auto()
    CLEAR = auto()
    STORED = auto()
    TEXT = auto()
    """In the clear or sealed: the text says which."""


class Column(NamedTuple):
    """Where a piece is."""

    table: str
    name: str
    kind: Kind
    kept: Kept


_COLUMNS = (
    Column("task", "payload_sealed", Kind.PAYLOAD, Kept.SEALED),
    Column("task", "payload", Kind.PAYLOAD, Kept.CLEAR),
    Column("task", "payload_location", Kind.PAYLOAD, Kept.STORED),
    Column("task", "result_sealed", Kind.RESULT, Kept.SEALED),
    Column("task", "result", Kind.RESULT, Kept.CLEAR),
    Column("task", "result_location", Kind.RESULT, Kept.STORED),
    Column("task", "error_message", Kind.ERROR, Kept.TEXT),
    Column("dead_letter", "last_error", Kind.ERROR, Kept.TEXT),
)
_ERROR = Column("failure", "error", Kind.ERROR, Kept.TEXT)
_TRACEBACK = Column("failure", "traceback", Kind.TRACEBACK, Kept.TEXT)


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of one task."""

    column: Column
    head: bytes | str | None
    """Its beginning; None where that has to be asked for, or where it is clear."""
    location: str | None = None
    attempt: int | None = None

    @property
    def key_id(self) -> str | None:
        """The key that sealed it; None: it is clear."""
        return None if self.head is None else key_id_of(self.head)


def pieces_of(row: Any) -> Iterator[Piece]:
    """Give the pieces that are there, of a row that ``reseal.LOOK`` answered."""
    for column in _COLUMNS:
        found = getattr(row, column.name)
        if found is not None and found is not False:
            yield _piece(column, found)
    for column, texts in ((_ERROR, row.errors), (_TRACEBACK, row.tracebacks)):
        for attempt, text in zip(row.attempts or (), texts or (), strict=True):
            if text is not None:
                yield Piece(column, text, attempt=attempt)


def _piece(column: Column, found: Any) -> Piece:
    match column.kept:
        case Kept.CLEAR:
            return Piece(column, None)
        case Kept.STORED:
            return Piece(column, None, found)
        case Kept.SEALED | Kept.TEXT:
            return Piece(column, found)


def wants(piece: Piece, key_id: str, *, clear: bool) -> bool:
    """Whether it is to be sealed by this key and is not; what is clear only if asked for."""
    return clear if piece.key_id is None else piece.key_id != key_id
