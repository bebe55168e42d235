"""What a role's process runs on, uvloop's event loop where it is installed, and how it ends."""

import asyncio
import gc
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Coroutine
from typing import Any, Final, NoReturn

_COLLECT_AFTER: Final = (20_000, 20, 20)
_CRASHED: Final = 1


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop; uvloop's takes about a tenth of the CPU from a task that does nothing."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


def spare_the_collector() -> None:
    """Keep what is there by now out of the garbage collector's sight, and let it look less often.

    Call it once a role is put together. What was imported stays until the end: to look through it
    was a tenth of what a small task costs a consumer, and a pause of 40 ms for whoever just then
    waits for an answer of the API.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def end_with(running: Coroutine[Any, Any, int]) -> NoReturn:
    """Run this and end the process with the code it returns; a crash is told, and is code 1.

    Not ``asyncio.run``, and no usual exit: both wait for threads, in which handlers run that were
    told to stop and did not, names are looked up, and servers asked that never answer. What must be
    closed or written is so before this returns its code; nothing registered with ``atexit`` runs.
    """
    code = _CRASHED
    try:
        code = new_loop().run_until_complete(running)
    except BaseException:  # noqa: BLE001 - a crash must not wait for them either
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
