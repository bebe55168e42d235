"""Arrays written as Postgres reads them: one text for a column of many rows.

A driver that dumps each element by itself costs more than the rest of the batch.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from uuid import UUID


def quoted(text: str) -> str:
    """Write an element that may hold anything."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def quoted_bytes(octets: bytes) -> str:
    """Write an element of ``bytea[]``."""
    return f'"\\\\x{octets.hex()}"'


def quoted_instant(instant: datetime) -> str:
    """Write an element of ``timestamptz[]``."""
    return f'"{instant.isoformat()}"'


def uuids(ids: Iterable[UUID]) -> str:
    """Write a ``uuid[]``."""
    return "{" + ",".join([each.hex for each in ids]) + "}"


def numbers(values: Iterable[float]) -> str:
    """Write an array of numbers, whole or not."""
    return "{" + ",".join(map(repr, values)) + "}"


def array(write: Callable[..., str], column: Sequence[object]) -> str:
    """Write a column of at least one row; None becomes NULL."""
    first = column[0]
    if all(value is first for value in column):  # most columns of most batches
        return "{" + ",".join(["NULL" if first is None else write(first)] * len(column)) + "}"
    return "{" + ",".join(["NULL" if value is None else write(value) for value in column]) + "}"
