"""Which handler runs which type; everything that can be checked is checked at registration."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from taskbell.consumer.errors import InvalidHandler
from taskbell.producer import TypedTask
from taskbell.shared.limits import QUEUE_BYTES, TYPE_BYTES
from taskbell.shared.retry import RetryPolicy

Handler = Callable[..., Any]
"""``(context, payload) -> result``, ``async def`` or ``def``; the result is JSON or None."""

_H = TypeVar("_H", bound=Handler)

DEFAULT_LEASE = 30.0
SHORTEST_LEASE = 1.0
DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class Registration:
    """A handler and the rules its attempts run under."""

    task_type: str
    queue: str
    handler: Handler
    model: type[TypedTask] | None
    lease: float
    retry: RetryPolicy

    @property
    def runs_on_loop(self) -> bool:
        """Whether the handler is ``async def``; others run in threads."""
        return inspect.iscoroutinefunction(self.handler)

    def read(self, payload: object) -> object:
        """Return what the handler takes; raises ``pydantic.ValidationError``."""
        return payload if self.model is None else self.model.model_validate(payload)


class Consumer:
    """The handlers of one application.

    ::

        app = Consumer()

        @app.handler(SendReceipt)
        async def send_receipt(context: Context, task: SendReceipt) -> None: ...

    Run it with ``taskbell consumer module:app``.
    """

    def __init__(self) -> None:
        self._registrations: dict[str, Registration] = {}

    def handler(
        self,
        task: str | type[TypedTask],
        *,
        queue: str | None = None,
        lease: float = DEFAULT_LEASE,
        retry: RetryPolicy | None = None,
    ) -> Callable[[_H], _H]:
        """Register a handler for a type name (gets the JSON) or a typed task (gets the model).

        ``queue``: where its tasks are expected; by default the typed task's own, or ``default``.
        ``lease``: seconds until another worker may take over from one that vanished; heartbeats
        keep it while a handler runs, however long. Raises ``InvalidHandler``.
        """
        model = None if isinstance(task, str) else task
        name = task if isinstance(task, str) else task.__task_type__
        lane = queue or (model.__task_queue__ if model else DEFAULT_QUEUE)

        def register(handler: _H) -> _H:
            self._add(Registration(name, lane, handler, model, lease, retry or RetryPolicy()))
            return handler

        return register

    def _add(self, registration: Registration) -> None:
        for problem in _problems(registration):
            raise InvalidHandler(f"handler of {registration.task_type!r}: {problem}")
        if registration.task_type in self._registrations:
            raise InvalidHandler(f"type {registration.task_type!r} has a handler already")
        self._registrations[registration.task_type] = registration

    @property
    def registrations(self) -> Mapping[str, Registration]:
        """What is registered, by type."""
        return self._registrations

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues in which tasks of these types are expected, sorted."""
        return tuple(sorted({each.queue for each in self._registrations.values()}))


def _problems(registration: Registration) -> list[str]:
    problems: list[str] = []
    if not 0 < len(registration.task_type.encode()) <= TYPE_BYTES:
        problems.append(f"a type name has 1 to {TYPE_BYTES} bytes")
    if not 0 < len(registration.queue.encode()) <= QUEUE_BYTES:
        problems.append(f"a queue name has 1 to {QUEUE_BYTES} bytes")
    if not SHORTEST_LEASE <= registration.lease < float("inf"):
        problems.append(f"a lease has at least {SHORTEST_LEASE} s")
    if not 0 <= registration.retry.delay < float("inf"):
        problems.append("a retry delay is a number of seconds from 0 on")
    try:
        inspect.signature(registration.handler).bind(None, None)
    except TypeError:
        problems.append("it must take two arguments: the context and the payload")
    return problems
