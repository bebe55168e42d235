"""Handlers for processes of their own, which must be able to import them."""

import asyncio
import os
import signal
import time
from base64 import b64decode
from operator import attrgetter
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import text

from support.effects import Watched
from taskbell.consumer import Consumer, Context, Fixed, Reject
from taskbell.producer import TypedTask
from taskbell.shared.database import conninfo
from taskbell.shared.events import Event
from taskbell.shared.ids import new_task_id
from taskbell.shared.points import PointReached
from taskbell.shared.sealing import Kind, Seals
from taskbell.shared.sealing.envelope import Envelope

app = Consumer()
AT_ONCE = Fixed(0)


class Add(TypedTask, type="add"):
    """A typed payload."""

    numbers: list[int]


@app.handler(Add, isolation="process")
def add(context: Context, task: Add) -> dict[str, Any]:
    return {"sum": sum(task.numbers), "pid": os.getpid(), "key": context.idempotency_key}


@app.handler("add_async", isolation="process")
async def add_async(_context: Context, payload: list[int]) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"sum": sum(payload), "pid": os.getpid()}


@app.handler("crash", isolation="process", retry=AT_ONCE)
def crash(context: Context, payload: dict[str, Any]) -> int:
    if context.attempt == 1:
        os.kill(os.getpid(), getattr(signal, payload["signal"]))
        time.sleep(60)  # the signal ends it here
    return context.attempt


@app.handler("endless", isolation="process", lease=2)
def endless(_context: Context, payload: dict[str, str]) -> None:
    with open(payload["pid_file"], "w", encoding="utf-8") as file:  # noqa: PTH123 - short
        file.write(str(os.getpid()))
    while True:  # without looking at the context, and without awaiting anything
        time.sleep(0.01)


@app.handler("telling", isolation="process")
def telling(context: Context, payload: dict[str, str]) -> None:
    for progress in ("begun", "half"):
        context.progress(progress)
    while not os.path.exists(payload["go"]):  # noqa: PTH110 - short
        time.sleep(0.01)


@app.handler("timed", isolation="process", timeout=0.5, retry=AT_ONCE)
def timed(context: Context, _payload: object) -> None:
    if context.attempt == 1:
        time.sleep(60)  # the timeout ends it here


@app.handler("hopeless", isolation="process")
def hopeless(_context: Context, _payload: object) -> None:
    raise Reject("no such order")


@app.handler("effect", isolation="process", lease=3)
def effect(context: Context, _payload: object) -> None:
    with context.effect(key="once") as session:
        session.execute(text("INSERT INTO public.ledger (entry) VALUES ('session')"))
    time.sleep(3.5)  # longer than the lease that the effect took
    raise ValueError("too late")


@app.handler("effect_async", isolation="process", lease=3)
async def effect_async(context: Context, _payload: object) -> None:
    async with context.effect(driver="psycopg", isolation="SERIALIZABLE") as connection:
        await connection.execute("INSERT INTO public.ledger (entry) VALUES ('connection')")
        await connection.execute("SELECT pg_sleep(3.5)")


@app.handler("dies_around_commit", isolation="process", retry=AT_ONCE)
async def dies_around_commit(context: Context, payload: dict[str, str]) -> None:
    def die(event: Event) -> None:
        if context.attempt == 1 and event == PointReached(payload["point"]):
            os.kill(os.getpid(), signal.SIGKILL)

    mine = await Watched.connect(conninfo(payload["url"]), autocommit=True)
    mine.observe = die
    async with mine, context.effect(driver="psycopg", connection=mine):
        await mine.execute("INSERT INTO public.ledger (entry) VALUES (%s)", (str(os.getpid()),))


@app.handler("effect_result", isolation="process")
def effect_result(context: Context, payload: dict[str, str]) -> None:
    effect = context.effect(driver="psycopg")
    with effect as connection:
        connection.execute("INSERT INTO public.ledger (entry) VALUES ('process')")
        effect.result = payload


@app.handler("quoting", isolation="process", retry=AT_ONCE)
def quoting(_context: Context, payload: dict[str, str]) -> None:
    raise ValueError(f"no such card: {payload['card']}")


@app.handler("follow_up_again", isolation="process", retry=AT_ONCE)
def follow_up_again(context: Context, payload: dict[str, str]) -> bool:
    with context.effect(driver="psycopg") as connection:
        task_id = UUID(payload["task_id"])
        return context.enqueue(connection, "next", payload, task_id=task_id).created


@app.handler("follow_up", isolation="process")
def follow_up(context: Context, payload: dict[str, str]) -> None:
    with context.effect(driver="psycopg") as connection:
        context.enqueue(connection, "next", payload)


@app.handler("prying", isolation="process", retry=AT_ONCE)
def prying(context: Context, payload: dict[str, str]) -> dict[str, int]:
    """Ask the worker for keys that are not this task's, and try them."""
    seals: Seals = attrgetter("_told.seals")(context)
    other, envelope = UUID(payload["task_id"]), Envelope.read(b64decode(payload["sealed"]))
    assert envelope is not None
    seal = seals.for_task(other, context.owner_id)
    cipher = AESGCM(seal.key)
    bound = envelope.head + bytes([Kind.PAYLOAD]) + other.bytes + context.owner_id.encode()
    try:
        cipher.decrypt(envelope.nonce, envelope.sealed, bound)
        opened = True
    except InvalidTag:
        opened = False
    refused = 0
    for verb in (
        lambda: seals.for_task(new_task_id(), "Bob"),
        lambda: seals.unknown_owners(["Ada", "Bob"]),
        lambda: seals.note_owners(["Bob"], []),
    ):
        try:
            verb()
        except PermissionError:
            refused += 1
    return {"opened": opened, "refused": refused}
