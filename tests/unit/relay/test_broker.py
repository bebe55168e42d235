"""A connection breaks in three ways: it raises, it hangs, or it cancels what nobody cancelled."""

import asyncio

import pytest
from aio_pika.exceptions import AMQPConnectionError, ChannelInvalidStateError

from taskbell.relay.broker import translated
from taskbell.shared.amqp import BrokerAway


@pytest.mark.parametrize(
    "error",
    [
        AMQPConnectionError("reset"),
        ChannelInvalidStateError("closed"),
        ConnectionResetError(),
        TimeoutError(),
    ],
)
def test_whatever_is_raised_is_one_error_that_says_something(error: Exception) -> None:
    with pytest.raises(BrokerAway) as caught, translated():
        raise error

    assert type(error).__name__ in str(caught.value)


async def test_a_call_that_hangs_is_given_up() -> None:
    with pytest.raises(BrokerAway), translated():
        async with asyncio.timeout(0.0):
            await asyncio.Event().wait()


async def test_a_cancellation_that_nobody_asked_for_is_survived() -> None:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone.set_exception(asyncio.CancelledError())

    with pytest.raises(BrokerAway), translated():
        await gone


async def test_a_real_shutdown_still_ends_it() -> None:
    entered = asyncio.Event()

    async def call() -> None:
        with translated():
            entered.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(call())
    await entered.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_what_the_caller_did_wrong_is_told_as_it_is() -> None:
    with pytest.raises(ValueError, match="name"), translated():
        raise ValueError("name")
