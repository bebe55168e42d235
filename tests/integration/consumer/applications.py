"""Applications with one handler, of the type ``t``."""

import asyncio
from typing import Any

from taskbell.consumer import Consumer, Context


def quick() -> Consumer:
    """Its handler is done at once."""
    app = Consumer()

    @app.handler("t")
    async def handle(_context: Context, _payload: object) -> None:
        return

    return app


class Gate:
    """A handler's begin and its permission to go on, for handlers on the loop."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def passed(self) -> None:
        self.begun.set()
        await self.go_on.wait()


def gated(**rules: Any) -> tuple[Consumer, Gate]:
    """Its handler passes the gate and is done."""
    app, gate = Consumer(), Gate()

    @app.handler("t", **rules)
    async def handle(_context: Context, _payload: object) -> None:
        await gate.passed()

    return app, gate
