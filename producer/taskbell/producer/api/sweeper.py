"""Delete what was stored for tasks that were not born, without anybody waiting for it."""

import asyncio
from collections.abc import Iterable
from typing import Final

from taskbell.shared.errors import StorageAway
from taskbell.shared.storage import Location, Storage

_MOST: Final = 32


class Sweeper:
    """Best effort: what is not deleted here is deleted by the collector, a day later."""

    def __init__(self, storage: Storage | None) -> None:
        self._storage = storage
        self._running: set[asyncio.Task[None]] = set()

    def sweep(self, locations: Iterable[str]) -> None:
        """Begin to delete these objects; does nothing while many others are being deleted."""
        paths = [Location.read(each).path for each in locations]
        if self._storage is None or not paths or len(self._running) >= _MOST:
            return
        running = asyncio.create_task(_delete(self._storage, paths), name="sweeper")
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def finish(self) -> None:
        """Wait until what was begun has ended."""
        while self._running:
            await asyncio.wait(self._running)


async def _delete(storage: Storage, paths: list[str]) -> None:
    try:
        await storage.delete(paths)
    except StorageAway:
        return
