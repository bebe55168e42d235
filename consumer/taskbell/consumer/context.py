"""What a handler is told about its attempt, and what it can do with it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload
from uuid import UUID

import psycopg

from taskbell.consumer.effect import Effect
from taskbell.consumer.effects import Effects, Given
from taskbell.consumer.errors import InvalidEffect, LeaseLost
from taskbell.consumer.fence import Fence, Holder, Mark
from taskbell.consumer.progress import storable_progress
from taskbell.consumer.stage import Stage
from taskbell.consumer.transaction import Isolation
from taskbell.producer import AsyncProducer, Enqueued, NewTask, Producer, TypedTask
from taskbell.producer.connection import Awaited, Blocking, is_blocking
from taskbell.producer.new_task import Options
from taskbell.producer.rules import require_name, require_text
from taskbell.shared.limits import DEDUP_KEY_BYTES, TYPE_BYTES
from taskbell.shared.sealing import Seals, TaskSeal

if TYPE_CHECKING:  # only those who use it load it
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
    from sqlalchemy.orm import Session


_ISOLATIONS = {"READ COMMITTED": False, "REPEATABLE READ": True, "SERIALIZABLE": True}


@dataclass(slots=True)
class Told:
    """What the worker learnt about an attempt after it began; read from the handler's thread."""

    lost: bool = False
    cancelled: bool = False
    timed_out: bool = False
    stage: Stage = Stage.NONE
    result: str | None = field(default=None, repr=False)
    """Of an effect in another database: what is yet to be settled."""
    hold: Callable[[], Holder] | None = None
    """Makes what an effect needs; most attempts have none."""
    effects: Effects | None = None
    seal: TaskSeal | None = None
    """Seals what comes of the task, where sealing is on."""
    seals: Seals | None = None
    """Seals its follow-ups."""
    is_there: Callable[[UUID], bool] | None = None
    """Asks whether there is such a task, where sealing is on; not on the loop."""
    progress: str | None = None
    """What the handler last said about how far it is, as JSON."""
    written: str | None = None
    """Which of these the database has; the same object, so that no lock is needed."""
    say: Callable[[str], None] | None = None
    """Set in a process of its own: how the worker hears of progress."""


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt at one task.

    ``idempotency_key`` is the same on every attempt: hand it to outside systems that take one.
    ``lost``, ``cancelled`` and ``timed_out`` tell handlers in threads, which cannot be interrupted,
    to stop. They stop by raising, whatever: a handler that returns says that the work is done.
    """

    task_id: UUID
    attempt: int
    type: str
    queue: str
    owner_id: str
    correlation_id: str | None
    traceparent: str | None
    created_at: datetime
    _told: Told = field(repr=False, compare=False)

    @property
    def idempotency_key(self) -> str:
        """A key for outside systems, equal on every attempt at this task."""
        return str(self.task_id)

    @property
    def lost(self) -> bool:
        """Whether somebody else may hold this task now or soon; what is returned does not count."""
        return self._told.lost

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this task to be cancelled."""
        return self._told.cancelled

    @property
    def timed_out(self) -> bool:
        """Whether the attempt took longer than its handler's ``timeout``."""
        return self._told.timed_out

    def progress(self, value: object) -> None:
        """Say how far the work is: JSON of at most 1 KiB, for whoever asks about the task.

        From any thread; returns at once. It is written within a second, the newest value wins, and
        it is gone when the attempt ends. It is never sealed: put nothing secret there. Raises
        ``InvalidTask`` for what cannot be kept.
        """
        said = storable_progress(value)
        if self._told.say is not None:
            self._told.say(said)
        else:
            self._told.progress = said

    @overload
    def effect(
        self,
        *,
        key: str | None = None,
        scope: str | None = None,
        isolation: Isolation = "READ COMMITTED",
        engine: "Engine | AsyncEngine | None" = None,
        driver: Literal["sqlalchemy"] = "sqlalchemy",
    ) -> "Effect[AsyncSession, Session]": ...

    @overload
    def effect(
        self,
        *,
        key: str | None = None,
        scope: str | None = None,
        isolation: Isolation = "READ COMMITTED",
        driver: Literal["psycopg"],
        connection: Given | None = None,
    ) -> Effect[psycopg.AsyncConnection[Any], psycopg.Connection[Any]]: ...

    def effect(
        self,
        *,
        key: str | None = None,
        scope: str | None = None,
        isolation: Isolation = "READ COMMITTED",
        engine: "Engine | AsyncEngine | None" = None,
        driver: Literal["sqlalchemy", "psycopg"] = "sqlalchemy",
        connection: Given | None = None,
    ) -> Effect[Any, Any]:
        """Commit business rows together with this task's settlement: once, or not at all.

        ``async with`` on the loop, ``with`` in a thread; see ``Effect``. ``key``: a business key of
        at most 1 024 bytes; seen before within its ``scope`` (the task's type), the handler ends
        there and the task is completed without a second effect. ``isolation``: above READ
        COMMITTED the lease is locked at the start. ``engine``: another database, which has the
        table ``taskbell.effect``; then the key alone makes the effect once, and is required.
        ``driver="psycopg"``: a psycopg connection instead of a session, or the given idle
        ``connection`` to taskbell's database. Raises ``InvalidEffect``, ``InvalidTask`` for a key
        that cannot be kept, and ``LeaseLost`` if another worker may have the task.
        """
        told = self._told
        if told.hold is None or told.effects is None:
            raise InvalidEffect("this context belongs to no running attempt")
        if told.lost:
            raise LeaseLost(self.task_id, self.attempt)
        if isolation not in _ISOLATIONS:
            raise InvalidEffect(f"isolation is one of {', '.join(_ISOLATIONS)}")
        if engine is not None and key is None:
            raise InvalidEffect("in another database only a key makes the effect once: give one")
        mark = None
        if key is not None:
            mark = Mark(
                require_name("scope", scope or self.type, TYPE_BYTES),
                require_text("key", key, DEDUP_KEY_BYTES),
            )
        elsewhere = engine is not None
        fence = Fence(told.hold(), mark, _ISOLATIONS[isolation] and not elsewhere, elsewhere)
        effects = told.effects
        if driver == "psycopg":
            return Effect(
                fence,
                lambda: effects.async_connection(connection, isolation),
                lambda: effects.connection(connection, isolation),
            )
        return Effect(
            fence,
            lambda: effects.async_session(engine, isolation),
            lambda: effects.session(engine, isolation),
        )

    @overload
    def enqueue(
        self,
        connection: "Blocking",
        task: str | TypedTask | NewTask,
        payload: object = None,
        **options: Unpack[Options],
    ) -> Enqueued: ...

    @overload
    def enqueue(
        self,
        connection: "Awaited",
        task: str | TypedTask | NewTask,
        payload: object = None,
        **options: Unpack[Options],
    ) -> Awaitable[Enqueued]: ...

    def enqueue(
        self,
        connection: "Blocking | Awaited",
        task: str | TypedTask | NewTask,
        payload: object = None,
        **options: Unpack[Options],
    ) -> Enqueued | Awaitable[Enqueued]:
        """Enqueue a follow-up that commits with the transaction of ``connection``.

        Through what an effect hands over it commits with the effect. It gets this task's owner
        and, unless it says otherwise, its correlation id; where sealing is on its payload is
        sealed. To be awaited if the connection is.
        """
        seals = self._told.seals
        request = NewTask.of(task, payload, **options)
        if request.correlation_id is None:
            request = replace(request, correlation_id=self.correlation_id)
        if is_blocking(connection):
            return Producer(owner_id=self.owner_id, seals=seals).enqueue(connection, request)
        awaited = cast("Awaited", connection)
        return AsyncProducer(owner_id=self.owner_id, seals=seals).enqueue(awaited, request)
