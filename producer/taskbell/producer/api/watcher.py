"""Watches tasks for those who wait for them: one statement for all of them."""

import asyncio

from taskbell.shared.connections import Runner


class Watcher:
    """Tells followers of each change they can still see."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Watch until ``stop``."""
        await self._stopped.wait()

    def stop(self) -> None:
        """End every stream, and the watch."""
        self._stopped.set()
