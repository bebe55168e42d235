"""Run one handler and turn whatever comes of it into an outcome.

The only place that catches whatever a handler raises.
"""

import asyncio
import contextvars
import inspect
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pydantic

from taskbell.consumer.context import Context
from taskbell.consumer.diagnosis import describe, diagnose, failed
from taskbell.consumer.errors import CommitUnknown, EffectSeen, LeaseLost, Reject, RetryLater
from taskbell.consumer.registry import Handler, Registration
from taskbell.consumer.result import storable_result
from taskbell.shared.errors import DatabaseAway, StorageAway
from taskbell.shared.interruption import asked_to_stop
from taskbell.shared.lifecycle import Completed, Outcome, Rejected, Released, Snoozed
from taskbell.shared.limits import RESULT_BYTES

_AWAY_SECONDS = (0.25, 0.75)

DONE: Final = Completed()
"""What came of a handler that returned nothing; the same object always."""


class UnreadablePayload(Reject):
    """The payload does not fit the typed task; it will not read better next time."""


async def execute(
    registration: Registration,
    context: Context,
    payload: object,
    threads: ThreadPoolExecutor,
    result_bytes: int,
) -> Outcome:
    """Run the handler, whose result may have so many bytes.

    An interruption of this coroutine is left to the caller.
    """

    async def run() -> object:
        argument = _read(registration, payload)
        if registration.runs_on_loop:
            return await registration.handler(context, argument)
        return await asyncio.get_running_loop().run_in_executor(
            threads, call, registration.handler, context, argument
        )

    return await outcome_of(run, result_bytes)


async def outcome_of(
    run: Callable[[], Awaitable[object]], result_bytes: int = RESULT_BYTES
) -> Outcome:
    """Run this and say what came of it."""
    try:
        result = await run()
        return DONE if result is None else Completed(storable_result(result, result_bytes))
    except RetryLater as later:
        return Snoozed(later.after, later.hold == "queue")
    except Reject as error:
        return Rejected(diagnose(error))
    except EffectSeen:
        return DONE
    except (LeaseLost, CommitUnknown, DatabaseAway, StorageAway):  # no fault of the handler's
        return Released(random.uniform(*_AWAY_SECONDS))  # noqa: S311 - jitter
    except asyncio.CancelledError as error:
        if asked_to_stop():
            raise
        return failed(error)  # the handler let a cancellation of its own escape
    except BaseException as error:  # noqa: BLE001 - SystemExit too ends this attempt, not the worker
        return failed(error)


def call(handler: Handler, context: Context, argument: object) -> object:
    """Call a handler that is not ``async def``, on the thread for it."""
    try:
        # A context of its own: a pool's thread would show one task what another left behind.
        result = contextvars.Context().run(handler, context, argument)
    except (StopIteration, GeneratorExit) as error:  # no future carries these as what they are
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the handler is not async def, but returned a coroutine: nobody awaits it")
    return result


def _read(registration: Registration, payload: object) -> object:
    try:
        return registration.read(payload)
    except pydantic.ValidationError as error:
        raise UnreadablePayload(describe(error)) from error
