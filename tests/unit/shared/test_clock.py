"""A rest ends with its event or with its time, whichever comes first."""

import asyncio

import pytest

from taskbell.shared.clock import loop_time, rest_until


@pytest.mark.parametrize("seconds", [3600.0, None])
async def test_an_event_ends_a_rest(seconds: float | None) -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)

    async with asyncio.timeout(60):
        await rest_until(event, seconds)

    assert event.is_set()


async def test_a_rest_ends_by_itself() -> None:
    begun = loop_time()

    await rest_until(asyncio.Event(), 0.02)

    assert loop_time() - begun >= 0.01
