"""What a worker and the processes of its isolated handlers say to each other, pickled.

Handlers and models travel by name, so that whatever a module makes of them at import is the same
on both sides.
"""

import importlib
from dataclasses import dataclass, field
from functools import reduce
from typing import Any
from uuid import UUID

from taskbell.consumer.leases import Lease
from taskbell.consumer.registry import Registration
from taskbell.consumer.stage import Stage
from taskbell.shared.database import Database
from taskbell.shared.ids import WorkerId
from taskbell.shared.sealing import TaskSeal

_TOLD = (
    "task_id", "attempt", "type", "queue", "owner_id", "correlation_id", "traceparent",
    "created_at",
)  # fmt: skip

Name = tuple[str, str]
"""A module and a qualified name in it."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The first thing a child hears."""

    path: list[str]
    database: Database
    worker_id: WorkerId
    result_bytes: int


@dataclass(frozen=True, slots=True)
class Order:
    """Run this attempt."""

    handler: Name
    model: Name | None
    task_type: str
    context: dict[str, Any]
    lease: float
    payload: object = field(repr=False)
    seal: TaskSeal | None
    """With the key of this task alone: the ring stays with the worker."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The effect came so far; the child waits until its worker has heard."""

    stage: Stage
    result: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Said:
    """How far an attempt is, by its handler; a thread it left behind may say so too late."""

    task_id: UUID
    attempt: int
    progress: str


def order_for(registration: Registration, lease: Lease) -> Order:
    """Write the order for one attempt."""
    model, context = registration.model, lease.context
    told = {name: getattr(context, name) for name in _TOLD}
    return Order(
        _named(registration.handler), None if model is None else _named(model),
        registration.task_type, told, lease.seconds, lease.payload, lease.told.seal,
    )  # fmt: skip


def _named(thing: Any) -> Name:
    return thing.__module__, thing.__qualname__


def found(name: Name) -> Any:
    """Import what a name stands for; raises ``ImportError`` and ``AttributeError``."""
    module, path = name
    return reduce(getattr, path.split("."), importlib.import_module(module))
