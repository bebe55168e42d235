"""The running loop's clock: the time by it, and a rest that something may end."""

import asyncio
from contextlib import suppress


def loop_time() -> float:
    """Return the seconds of the running event loop."""
    return asyncio.get_running_loop().time()


async def rest_until(event: asyncio.Event, seconds: float | None) -> None:
    """Return once the event is set, or when so many seconds are over; None: however long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
