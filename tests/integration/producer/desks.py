"""The kinds of connection a producer writes through, each behind the same few verbs."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Unpack

import psycopg
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from taskbell.producer import AsyncProducer, Enqueued, NewTask, Producer, TypedTask
from taskbell.producer.connection import Awaited, Blocking
from taskbell.producer.new_task import Options
from taskbell.shared.database import conninfo

Rows = list[tuple[Any, ...]]


class Desk(Protocol):
    """A producer together with one open connection of the caller."""

    async def enqueue(
        self, task: str | TypedTask | NewTask, payload: object = None, **options: Unpack[Options]
    ) -> Enqueued: ...

    async def enqueue_many(self, tasks: Iterable[NewTask | TypedTask]) -> list[Enqueued]: ...

    async def query(self, sql: str) -> Rows:
        """The rows of a statement that the caller runs in the same transaction."""
        ...

    async def run(self, sql: str) -> None: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...


async def enqueue(desk: Desk, request: NewTask, *, many: bool) -> Enqueued:
    """Enqueue one task, by the verb for one or by the verb for many."""
    if many:
        return (await desk.enqueue_many([request]))[0]
    return await desk.enqueue(request)


class BlockingDesk:
    """Calls run in threads, so that a test may let one wait for another."""

    def __init__(self, producer: Producer, connection: Blocking) -> None:
        self._producer = producer
        self._connection = connection

    async def enqueue(
        self, task: str | TypedTask | NewTask, payload: object = None, **options: Unpack[Options]
    ) -> Enqueued:
        return await asyncio.to_thread(
            lambda: self._producer.enqueue(self._connection, task, payload, **options)
        )

    async def enqueue_many(self, tasks: Iterable[NewTask | TypedTask]) -> list[Enqueued]:
        return await asyncio.to_thread(self._producer.enqueue_many, self._connection, tasks)

    async def query(self, sql: str) -> Rows:
        if isinstance(self._connection, psycopg.Connection):
            return self._connection.execute(sql.encode()).fetchall()
        return [tuple(row) for row in self._connection.execute(text(sql))]

    async def run(self, sql: str) -> None:
        if isinstance(self._connection, psycopg.Connection):
            self._connection.execute(sql.encode())
        else:
            self._connection.execute(text(sql))

    async def commit(self) -> None:
        self._connection.commit()

    async def rollback(self) -> None:
        self._connection.rollback()


class AwaitedDesk:
    """The same for the connections of asyncio."""

    def __init__(self, producer: AsyncProducer, connection: Awaited) -> None:
        self._producer = producer
        self._connection = connection

    async def enqueue(
        self, task: str | TypedTask | NewTask, payload: object = None, **options: Unpack[Options]
    ) -> Enqueued:
        return await self._producer.enqueue(self._connection, task, payload, **options)

    async def enqueue_many(self, tasks: Iterable[NewTask | TypedTask]) -> list[Enqueued]:
        return await self._producer.enqueue_many(self._connection, tasks)

    async def query(self, sql: str) -> Rows:
        if isinstance(self._connection, psycopg.AsyncConnection):
            return await (await self._connection.execute(sql.encode())).fetchall()
        return [tuple(row) for row in await self._connection.execute(text(sql))]

    async def run(self, sql: str) -> None:
        if isinstance(self._connection, psycopg.AsyncConnection):
            await self._connection.execute(sql.encode())
        else:
            await self._connection.execute(text(sql))

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()


@asynccontextmanager
async def _session(url: str, producer: Producer) -> AsyncGenerator[Desk]:
    with Session(create_engine(url, poolclass=NullPool)) as session:
        yield BlockingDesk(producer, session)


@asynccontextmanager
async def _scoped_session(url: str, producer: Producer) -> AsyncGenerator[Desk]:
    # One scope whatever the thread: the calls of a desk run in several.
    sessions = sessionmaker(create_engine(url, poolclass=NullPool))
    registry = scoped_session(sessions, scopefunc=lambda: None)
    yield BlockingDesk(producer, registry)
    registry.remove()


@asynccontextmanager
async def _connection(url: str, producer: Producer) -> AsyncGenerator[Desk]:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        yield BlockingDesk(producer, connection)


@asynccontextmanager
async def _psycopg(url: str, producer: Producer) -> AsyncGenerator[Desk]:
    connection = psycopg.connect(conninfo(url))
    yield BlockingDesk(producer, connection)
    connection.close()


@asynccontextmanager
async def _async_session(url: str, producer: AsyncProducer) -> AsyncGenerator[Desk]:
    async with AsyncSession(_async_engine(url)) as session:
        yield AwaitedDesk(producer, session)


@asynccontextmanager
async def _async_scoped_session(url: str, producer: AsyncProducer) -> AsyncGenerator[Desk]:
    registry = async_scoped_session(async_sessionmaker(_async_engine(url)), scopefunc=lambda: None)
    yield AwaitedDesk(producer, registry)
    await registry.remove()


@asynccontextmanager
async def _async_connection(url: str, producer: AsyncProducer) -> AsyncGenerator[Desk]:
    async with _async_engine(url).connect() as connection:
        yield AwaitedDesk(producer, connection)


@asynccontextmanager
async def _async_psycopg(url: str, producer: AsyncProducer) -> AsyncGenerator[Desk]:
    connection = await psycopg.AsyncConnection.connect(conninfo(url))
    yield AwaitedDesk(producer, connection)
    await connection.close()


def _async_engine(url: str) -> AsyncEngine:
    return create_async_engine(url, poolclass=NullPool)


_BLOCKING: dict[str, Callable[[str, Producer], AbstractAsyncContextManager[Desk]]] = {
    "session": _session,
    "connection": _connection,
    "psycopg": _psycopg,
}
_AWAITED: dict[str, Callable[[str, AsyncProducer], AbstractAsyncContextManager[Desk]]] = {
    "async_session": _async_session,
    "async_connection": _async_connection,
    "async_psycopg": _async_psycopg,
}
KINDS = (*_BLOCKING, *_AWAITED)
"""The whole suite runs on these; the scoped sessions, which only pass calls on, run in one test."""


def open_desk(kind: str, url: str, **terms: Any) -> AbstractAsyncContextManager[Desk]:
    """Open a connection of that kind, for a producer on these terms.

    What is not committed at the end is rolled back.
    """
    blocking = {**_BLOCKING, "scoped_session": _scoped_session}
    if kind in blocking:
        return blocking[kind](url, Producer(**terms))
    awaited = {**_AWAITED, "async_scoped_session": _async_scoped_session}
    return awaited[kind](url, AsyncProducer(**terms))
