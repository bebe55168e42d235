"""Tell a cancellation that was asked for from one that a library leaked."""

import asyncio


def asked_to_stop() -> bool:
    """Whether somebody cancelled the code that runs now.

    False when a ``CancelledError`` came out of something it awaited: a broken broker connection,
    or a handler that lets a cancellation of its own escape.
    """
    running = asyncio.current_task()
    return running is not None and running.cancelling() > 0
