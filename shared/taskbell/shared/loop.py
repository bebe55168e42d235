"""The event loop a role runs on: uvloop's where it is installed, the standard one otherwise."""

import asyncio
import importlib
import importlib.util


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop; uvloop's takes about a tenth of the CPU from a task that does nothing."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop
