"""Handlers through which a secret goes in every way there is."""

import asyncio
import os
import signal
from typing import Any

from taskbell.consumer import Consumer, Context, Fixed, Reject

app = Consumer()
AT_ONCE = Fixed(0)
LEASE = 2.5


class Spilt(Exception):
    """Says what it should not."""


@app.handler("succeed", lease=LEASE)
async def succeed(_context: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the secret."""
    return {"echo": payload["secret"]}


@app.handler("retry", lease=LEASE, retry=AT_ONCE)
async def retry(context: Context, payload: dict[str, Any]) -> str:
    """Fail once with the secret in the error, in its cause and in the traceback's lines."""
    if context.attempt == 1:
        raise Spilt(f"once more: {payload['secret']}") from Spilt(payload["secret"])
    return str(payload["secret"])


@app.handler("die", lease=LEASE, retry=AT_ONCE)
async def die(_context: Context, payload: dict[str, Any]) -> None:
    """Fail for good, with the secret as the key that was not found."""
    {}[payload["secret"]]


@app.handler("refuse", lease=LEASE)
def refuse(_context: Context, payload: dict[str, Any]) -> None:
    """Reject it, naming the secret, in a thread."""
    raise Reject(f"not this one: {payload['secret']}")


@app.handler("linger", lease=LEASE)
async def linger(_context: Context, payload: dict[str, Any]) -> None:
    """Run until it is cancelled, and then complain."""
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        raise Spilt(payload["secret"]) from None


@app.handler("crash", lease=LEASE, retry=AT_ONCE)
async def crash(context: Context, payload: dict[str, Any]) -> str:
    """Kill the worker at the first attempt."""
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return str(payload["secret"])


@app.handler("apart", lease=LEASE, isolation="process", retry=AT_ONCE)
def apart(context: Context, payload: dict[str, Any]) -> str:
    """Fail once and then succeed, in a process of its own."""
    if context.attempt == 1:
        raise Spilt(payload["secret"])
    return str(payload["secret"])
