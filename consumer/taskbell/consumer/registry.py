"""Which handler runs which type; everything that can be checked is checked at registration."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from taskbell.consumer.errors import InvalidHandler
from taskbell.consumer.retries import Retries, Retrying
from taskbell.producer import InvalidTask, TypedTask
from taskbell.producer.rules import require_queue, require_type
from taskbell.shared.limits import DEFAULT_QUEUE, DELAY_SECONDS, LEASE_SECONDS

if TYPE_CHECKING:  # only those who have effects through it load it
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

Handler = Callable[..., Any]
"""``(context, payload) -> result``, ``async def`` or ``def``; the result is JSON or None."""

_H = TypeVar("_H", bound=Handler)

DEFAULT_LEASE = 30.0


@dataclass(frozen=True, slots=True)
class Registration:
    """A handler and the rules its attempts run under."""

    task_type: str
    queue: str
    handler: Handler
    model: type[TypedTask] | None
    lease: float
    retry: Retries
    timeout: float | None
    isolated: bool
    """Whether the handler runs in a process of its own."""
    runs_on_loop: bool
    """Whether the handler is ``async def`` and not isolated; others run in threads."""

    def read(self, payload: object) -> object:
        """Return what the handler takes; raises ``pydantic.ValidationError``."""
        return payload if self.model is None else self.model.model_validate(payload)


class Consumer:
    """The handlers of one application.

    ::

        app = Consumer()

        @app.handler(SendReceipt)
        async def send_receipt(context: Context, task: SendReceipt) -> None: ...

    Run it with ``taskbell consumer module:app``. ``engine``: your Engine or AsyncEngine on
    taskbell's own database, for effects; without one they make their own when first needed.
    """

    def __init__(self, *, engine: "Engine | AsyncEngine | None" = None) -> None:
        self._registrations: dict[str, Registration] = {}
        self.engine = engine

    def handler(
        self,
        task: str | type[TypedTask],
        *,
        queue: str | None = None,
        lease: float = DEFAULT_LEASE,
        retry: Retrying | None = None,
        permanent: Iterable[type[BaseException]] = (),
        timeout: float | None = None,
        isolation: Literal["process"] | None = None,
    ) -> Callable[[_H], _H]:
        """Register a handler for a type name (gets the JSON) or a typed task (gets the model).

        ``queue``: where its tasks are expected; by default the typed task's own, or ``default``.
        ``lease``: seconds until another worker may take over from one that vanished; heartbeats
        keep it while a handler runs, however long. ``retry``: when a failed try is repeated, a
        policy or one for each exception class, of which the most specific wins. ``permanent``:
        exceptions that no other try would mend: FAILED at once. ``timeout``: seconds that an
        attempt may take; more is a failed try. ``isolation="process"``: run it in a process of its
        own, which can be killed. Raises ``InvalidHandler``.
        """
        name = task if isinstance(task, str) else getattr(task, "__task_type__", None)
        if name is None:
            raise InvalidHandler(f"{task!r}: a handler is for a type name or a typed task")
        model = None if isinstance(task, str) else task
        lane = queue or (model.__task_queue__ if model else DEFAULT_QUEUE)

        def register(handler: _H) -> _H:
            isolated = isolation == "process"
            on_loop = is_async(handler) and not isolated
            retries = Retries.of(retry, permanent)
            self._add(
                Registration(name, lane, handler, model, lease, retries, timeout, isolated, on_loop)
            )
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


def is_async(handler: Handler) -> bool:
    call: object = getattr(handler, "__call__", None)  # noqa: B004 - of an object that is a handler
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _is_importable(handler: Handler) -> bool:
    name = getattr(handler, "__qualname__", "<none>")
    return inspect.isfunction(handler) and "<" not in name and handler.__module__ != "__main__"


def _problems(registration: Registration) -> list[str]:
    problems: list[str] = []
    shortest, longest = LEASE_SECONDS
    try:
        require_type("the type", registration.task_type)
        require_queue("the queue", registration.queue)
    except InvalidTask as error:
        problems.append(str(error))
    if not shortest <= registration.lease <= longest:
        problems.append(f"a lease has {shortest} to {longest} seconds")
    problems += registration.retry.problems()
    if registration.timeout is not None and not 0 < registration.timeout <= DELAY_SECONDS:
        problems.append(f"a timeout has more than 0 and at most {DELAY_SECONDS} seconds")
    if registration.isolated and not _is_importable(registration.handler):
        problems.append("a process of its own must be able to import it: a module's own function")
    if inspect.isgeneratorfunction(registration.handler) or inspect.isasyncgenfunction(
        registration.handler
    ):
        problems.append("it yields: a handler returns")
    try:
        inspect.signature(registration.handler).bind(None, None)
    except TypeError:
        problems.append("it must take two arguments: the context and the payload")
    return problems
