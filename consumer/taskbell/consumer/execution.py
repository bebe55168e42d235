"""Run one handler and turn whatever comes of it into an outcome.

The only place that catches whatever a handler raises.
"""

import asyncio
import contextvars
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pydantic

from taskbell.consumer.diagnosis import diagnose
from taskbell.consumer.errors import Reject, RetryLater
from taskbell.consumer.leases import Lease
from taskbell.consumer.registry import Registration
from taskbell.shared.interruption import asked_to_stop
from taskbell.shared.lifecycle import Completed, Failed, Outcome, Rejected, Snoozed
from taskbell.shared.limits import RESULT_BYTES


class UnstorableResult(Reject):
    """The handler returned what is not JSON; it ran, and trying again would not help."""


async def execute(registration: Registration, lease: Lease, threads: ThreadPoolExecutor) -> Outcome:
    """Run the handler of ``lease``; an interruption of this coroutine is left to the caller."""
    try:
        argument = registration.read(lease.payload)
    except pydantic.ValidationError as error:  # it will not read better next time
        return Rejected(diagnose(error))
    try:
        return Completed(_storable(await _run(registration, lease, argument, threads)))
    except RetryLater as later:
        return Snoozed(later.after)
    except Reject as error:
        return Rejected(diagnose(error))
    except asyncio.CancelledError as error:
        if asked_to_stop():
            raise
        return Failed(diagnose(error))  # the handler let a cancellation of its own escape
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit too ends this attempt, not the worker
        return Failed(diagnose(error))


async def _run(
    registration: Registration, lease: Lease, argument: object, threads: ThreadPoolExecutor
) -> object:
    if registration.runs_on_loop:
        return await registration.handler(lease.context, argument)
    # A context of its own: a pool's thread would show one task what another left behind.
    call = partial(contextvars.Context().run, _call, registration, lease, argument)
    return await asyncio.get_running_loop().run_in_executor(threads, call)


def _call(registration: Registration, lease: Lease, argument: object) -> object:
    try:
        return registration.handler(lease.context, argument)
    except StopIteration as error:  # a future refuses to carry it, and would never be done
        raise RuntimeError("the handler raised StopIteration") from error


def _storable(result: object) -> str | None:
    if result is None:
        return None
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableResult(f"the result is not JSON: {error}") from error
    if "\\u0000" in text or size > RESULT_BYTES:
        raise UnstorableResult(f"the result holds a NUL or is longer than {RESULT_BYTES} bytes")
    return text
