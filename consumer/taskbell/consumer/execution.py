"""Run one handler and turn whatever comes of it into an outcome.

The only place that catches whatever a handler raises.
"""

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor

import pydantic

from taskbell.consumer.diagnosis import describe, diagnose
from taskbell.consumer.errors import Reject, RetryLater
from taskbell.consumer.leases import Lease
from taskbell.consumer.registry import Registration
from taskbell.producer.payload import encode
from taskbell.shared.errors import InvalidTask
from taskbell.shared.interruption import asked_to_stop
from taskbell.shared.lifecycle import Completed, Failed, Outcome, Rejected, Snoozed
from taskbell.shared.limits import RESULT_BYTES


class UnreadablePayload(Reject):
    """The payload does not fit the typed task; it will not read better next time."""


class UnstorableResult(Reject):
    """The handler returned what cannot be kept; it ran, and trying again would not help."""


async def execute(registration: Registration, lease: Lease, threads: ThreadPoolExecutor) -> Outcome:
    """Run the handler of ``lease``; an interruption of this coroutine is left to the caller."""
    try:
        argument = _read(registration, lease.payload)
        return Completed(_storable(await _run(registration, lease, argument, threads)))
    except RetryLater as later:
        return Snoozed(later.after)
    except Reject as error:
        return Rejected(diagnose(error))
    except asyncio.CancelledError as error:
        if asked_to_stop():
            raise
        return Failed(diagnose(error))  # the handler let a cancellation of its own escape
    except BaseException as error:  # noqa: BLE001 - SystemExit too ends this attempt, not the worker
        return Failed(diagnose(error))


def _read(registration: Registration, payload: object) -> object:
    try:
        return registration.read(payload)
    except pydantic.ValidationError as error:
        raise UnreadablePayload(describe(error)) from error


async def _run(
    registration: Registration, lease: Lease, argument: object, threads: ThreadPoolExecutor
) -> object:
    if registration.runs_on_loop:
        return await registration.handler(lease.context, argument)
    return await asyncio.get_running_loop().run_in_executor(
        threads, _call, registration, lease, argument
    )


def _call(registration: Registration, lease: Lease, argument: object) -> object:
    try:
        # A context of its own: a pool's thread would show one task what another left behind.
        result = contextvars.Context().run(registration.handler, lease.context, argument)
    except (StopIteration, GeneratorExit) as error:  # no future carries these as what they are
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the handler is not async def, but returned a coroutine: nobody awaits it")
    return result


def _storable(result: object) -> str | None:
    if result is None:
        return None
    try:
        return encode(result, RESULT_BYTES)
    except InvalidTask as error:  # the rules of payloads, whose words name a payload
        where = error.field.removeprefix("payload")
        raise UnstorableResult(f"the result{where}: {error.problem}") from error
