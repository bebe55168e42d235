"""Handlers whose effects commit with their settlement, and the points inside that transaction."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection, AsyncTransaction

from support import practice
from support.application import book
from support.practice import AFTER_EFFECT_COMMIT, BEFORE_EFFECT_COMMIT, DURING_DEDUP_INSERT, LEASE
from taskbell.consumer import Consumer, Context
from taskbell.shared.database import conninfo
from taskbell.shared.events import Observer, ignore
from taskbell.shared.points import PointReached

AFTER_EFFECT: Final = PointReached("between effect and settlement")

_WRITE: Final = "INSERT INTO acceptance.effect (task_id, attempt) VALUES (%s, %s)"
_WRITE_ELSEWHERE: Final = "INSERT INTO acceptance.effect (task_id, attempt) VALUES (:id, :attempt)"


class Watched(AsyncConnection[Any]):
    """A connection that reports where its transaction stands."""

    observe: Observer = staticmethod(ignore)

    @asynccontextmanager
    async def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - as in the class above
    ) -> AsyncGenerator[AsyncTransaction]:
        async with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction
            self.observe(BEFORE_EFFECT_COMMIT)
        self.observe(AFTER_EFFECT_COMMIT)


def application(observe: Observer) -> Consumer:
    """Make the handlers of `practice`, and these."""
    app = practice.application(observe)

    @app.handler("deliver", lease=LEASE)
    async def deliver(context: Context, payload: dict[str, Any]) -> None:
        """Have an effect in taskbell's own database; the key is the payload's, or the task's."""
        await book().write(context.task_id, context.attempt)
        connection = await Watched.connect(_url(), autocommit=True)
        connection.observe = observe
        key = payload.get("key") or context.idempotency_key
        async with (
            connection,
            context.effect(key=key, driver="psycopg", connection=connection) as mine,
        ):
            observe(DURING_DEDUP_INSERT)
            await mine.execute(_WRITE, (context.task_id, context.attempt))
            observe(AFTER_EFFECT)

    @app.handler("deliver_elsewhere", lease=LEASE)
    async def deliver_elsewhere(context: Context, payload: object) -> None:
        """Have an effect through an engine of its own, as in a business database."""
        from sqlalchemy import text  # noqa: PLC0415 - half a second, for those who need it
        from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 - the same

        del payload
        await book().write(context.task_id, context.attempt)
        engine = create_async_engine(os.environ["TASKBELL_DATABASE_URL"])
        try:
            async with context.effect(engine=engine, key=context.idempotency_key) as session:
                values = {"id": context.task_id, "attempt": context.attempt}
                await session.execute(text(_WRITE_ELSEWHERE), values)
            observe(AFTER_EFFECT_COMMIT)
        finally:
            await engine.dispose()

    return app


def _url() -> str:
    return conninfo(os.environ["TASKBELL_DATABASE_URL"])


app = application(ignore)
