"""The handlers of the proofs, whose effects can be counted, and the points inside them.

The table of effects has no unique constraint, so that a duplicate is seen rather than prevented;
what prevents it is the dedup key that is committed with the effect, as the consumer's README tells.
"""

import asyncio
import os
import signal
import time
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection

from support.application import RECORD, book
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.shared.database import conninfo
from taskbell.shared.events import Observer, ignore
from taskbell.shared.points import PointReached

_SCHEMA = """
CREATE TABLE acceptance.done (dedup_key text PRIMARY KEY);
CREATE TABLE acceptance.effect (
    task_id uuid NOT NULL, attempt integer NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""
LEASE: Final = 2.5
CAREFUL_LEASE: Final = 10.0
"""Of this a second is left when the handler is stopped: more than a loaded machine needs."""
LONG_LEASE: Final = 4.0
POISON_DELAY: Final = 2.5
_LOOK_SECONDS: Final = 0.05

IN_HANDLER: Final = PointReached("in the middle of a handler")
DURING_DEDUP_INSERT: Final = PointReached("between dedup key and effect")
BEFORE_EFFECT_COMMIT: Final = PointReached("before the commit of an effect")
AFTER_EFFECT_COMMIT: Final = PointReached("after the commit of an effect")

_KEY = "INSERT INTO acceptance.done VALUES (%s) ON CONFLICT DO NOTHING RETURNING dedup_key"
_EFFECT = "INSERT INTO acceptance.effect (task_id, attempt) VALUES (%s, %s)"


def furnish(url: str) -> None:
    """Make the tables of the effects."""
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute(_SCHEMA.encode())


class Venom(Exception):
    """What a poison task ends with."""


async def hold(context: Context, payload: dict[str, Any]) -> None:
    """Take as long as the payload says, at the first attempt."""
    await book().write(context.task_id, context.attempt)
    if context.attempt == 1:
        await asyncio.sleep(payload["seconds"])


def hold_regardless(context: Context, payload: dict[str, Any]) -> None:
    """Do the same in a thread; told to stop, go on for two leases all the same."""
    _record(context)
    end = time.monotonic() + (payload["seconds"] if context.attempt == 1 else 0.0)
    while time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        if context.lost:
            time.sleep(2 * LEASE)
            return


async def poison(context: Context, payload: object) -> None:
    """Fail, always."""
    del payload
    await book().write(context.task_id, context.attempt)
    raise Venom


async def assassin(context: Context, payload: object) -> None:
    """Kill the worker."""
    del payload
    await book().write(context.task_id, context.attempt)
    os.kill(os.getpid(), signal.SIGKILL)


def application(observe: Observer) -> Consumer:
    """Make the handlers; `observe` is told the points inside them."""
    app = Consumer()
    for each in (hold, hold_regardless, assassin):
        app.handler(each.__name__, lease=LEASE)(each)
    app.handler("hold_carefully", lease=CAREFUL_LEASE)(hold)
    app.handler("hold_long", lease=LONG_LEASE)(hold)
    app.handler("poison", lease=LEASE, retry=Fixed(delay=POISON_DELAY))(poison)

    @app.handler("charge", lease=LEASE)
    async def charge(context: Context, payload: dict[str, Any]) -> None:
        """Charge once, however often it is started."""
        await book().write(context.task_id, context.attempt)
        observe(IN_HANDLER)
        await asyncio.sleep(payload.get("seconds", 0))
        async with book().opened() as connection:
            await _charge_once(connection, context, observe)
        observe(AFTER_EFFECT_COMMIT)

    return app


async def _charge_once(
    connection: AsyncConnection[Any], context: Context, observe: Observer
) -> None:
    async with connection.transaction():
        answer = await connection.execute(_KEY, (context.idempotency_key,))
        first = await answer.fetchone()
        observe(DURING_DEDUP_INSERT)
        if first is not None:
            await connection.execute(_EFFECT, (context.task_id, context.attempt))
        observe(BEFORE_EFFECT_COMMIT)


def _record(context: Context) -> None:
    with psycopg.connect(
        conninfo(os.environ["TASKBELL_DATABASE_URL"]), autocommit=True
    ) as connection:
        connection.execute(RECORD, (context.task_id, context.attempt, os.getpid()))


app = application(ignore)
