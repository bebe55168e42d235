"""A call to the broker's client and a shutdown that comes in the middle of it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from taskbell.consumer.link import answered
from taskbell.relay.broker import translated


@asynccontextmanager
async def _translated() -> AsyncGenerator[None]:
    with translated():
        yield


@pytest.mark.parametrize("guard", [answered, _translated])
async def test_a_shutdown_that_the_client_library_swallows_comes_through_all_the_same(
    guard: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    begun = asyncio.Event()

    async def swallow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    async def call() -> None:
        async with guard():
            await swallow()

    calling = asyncio.ensure_future(call())
    await begun.wait()
    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
