"""Hands work to the background in the transaction that creates it."""

from typing import TYPE_CHECKING

from taskbell.producer.new_task import NewTask
from taskbell.producer.submission import Enqueued
from taskbell.producer.typed_task import TypedTask
from taskbell.shared.errors import (
    IdempotencyConflict,
    InvalidTask,
    TaskbellError,
    UnsupportedConnection,
)
from taskbell.shared.ids import TaskId, new_task_id

if TYPE_CHECKING:
    from taskbell.producer.client import AsyncProducer, Producer

__all__ = [
    "AsyncProducer",
    "Enqueued",
    "IdempotencyConflict",
    "InvalidTask",
    "NewTask",
    "Producer",
    "TaskId",
    "TaskbellError",
    "TypedTask",
    "UnsupportedConnection",
    "new_task_id",
]


def __getattr__(name: str) -> object:
    # The producers know SQLAlchemy, which costs a process that only handles tasks 25 MB and most of
    # its start: load it for those who enqueue.
    if name in {"AsyncProducer", "Producer"}:
        from taskbell.producer import client  # noqa: PLC0415 - see above

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
