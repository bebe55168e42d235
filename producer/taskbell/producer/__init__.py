"""Hands work to the background in the transaction that creates it."""

from taskbell.producer.client import AsyncProducer, Producer
from taskbell.producer.new_task import NewTask
from taskbell.producer.owned import OwnerClient
from taskbell.producer.stored import StoredPayload
from taskbell.producer.submission import Enqueued
from taskbell.producer.typed_task import TypedTask
from taskbell.shared.errors import (
    IdempotencyConflict,
    InvalidTask,
    QueueFull,
    RateLimited,
    StorageAway,
    TaskbellError,
    Unreadable,
    UnsupportedConnection,
)
from taskbell.shared.ids import TaskId, new_task_id

__all__ = [
    "AsyncProducer",
    "Enqueued",
    "IdempotencyConflict",
    "InvalidTask",
    "NewTask",
    "OwnerClient",
    "Producer",
    "QueueFull",
    "RateLimited",
    "StorageAway",
    "StoredPayload",
    "TaskId",
    "TaskbellError",
    "TypedTask",
    "Unreadable",
    "UnsupportedConnection",
    "new_task_id",
]
