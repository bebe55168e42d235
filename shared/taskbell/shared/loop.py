"""What a role's process runs on: uvloop's event loop where it is installed, a collector spared."""

import asyncio
import gc
import importlib
import importlib.util
from typing import Final

_COLLECT_AFTER: Final = (20_000, 20, 20)


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
