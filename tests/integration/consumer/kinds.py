"""The four ways of a handler to its effect: session or connection, awaited or blocking."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from integration.consumer.ledger import WRITE, WRITE_PLAIN
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.consumer.transaction import Isolation

AT_ONCE = Fixed(0)

Between = Callable[[Context], None]


def nothing(_context: Context) -> None:
    return


async def in_session(
    context: Context, between: Between = nothing, isolation: Isolation = "READ COMMITTED"
) -> None:
    async with context.effect(isolation=isolation) as session:
        await session.execute(WRITE, {"entry": "async session"})
        between(context)


def in_blocking_session(
    context: Context, between: Between = nothing, isolation: Isolation = "READ COMMITTED"
) -> None:
    with context.effect(isolation=isolation) as session:
        session.execute(WRITE, {"entry": "session"})
        between(context)


async def in_connection(
    context: Context, between: Between = nothing, isolation: Isolation = "READ COMMITTED"
) -> None:
    async with context.effect(driver="psycopg", isolation=isolation) as connection:
        await connection.execute(WRITE_PLAIN, ("async connection",))
        between(context)


def in_blocking_connection(
    context: Context, between: Between = nothing, isolation: Isolation = "READ COMMITTED"
) -> None:
    with context.effect(driver="psycopg", isolation=isolation) as connection:
        connection.execute(WRITE_PLAIN, ("connection",))
        between(context)


KINDS = [
    pytest.param(in_session, id="AsyncSession"),
    pytest.param(in_blocking_session, id="Session"),
    pytest.param(in_connection, id="AsyncConnection"),
    pytest.param(in_blocking_connection, id="Connection"),
]
Kind = Callable[..., Awaitable[None] | None]


def handle_by(
    app: Consumer,
    kind: Kind,
    *arguments: Any,
    task_type: str = "t",
    lease: float = 2,
    **terms: Any,
) -> None:
    """Register a handler of the kind's colour, which gives its context to ``kind``."""
    if kind in {in_session, in_connection}:

        @app.handler(task_type, retry=AT_ONCE, lease=lease)
        async def handle(context: Context, _payload: object) -> None:
            done = kind(context, *arguments, **terms)
            assert done is not None
            await done

    else:

        @app.handler(task_type, retry=AT_ONCE, lease=lease)
        def handle_in_thread(context: Context, _payload: object) -> None:
            kind(context, *arguments, **terms)
