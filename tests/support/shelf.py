"""A storage in memory, which can be away, slow and forgetful when a test wants that."""

import asyncio
import hashlib
from typing import Final
from uuid import UUID

from taskbell.shared.errors import StorageAway, Unreadable
from taskbell.shared.storage import Location, Storage
from taskbell.shared.storage.location import Stored, owner_segment

INLINE: Final = 1000


class Shelf(Storage):
    """Keeps objects, unless it is ``away``; ``asked`` tells how often somebody wanted to."""

    def __init__(self, inline_bytes: int = INLINE) -> None:
        self.inline_bytes = inline_bytes
        self.objects: dict[str, bytes] = {}
        self.away = False
        self.broken = False
        """Raises what no storage should."""
        self.asked = 0
        self.refused = asyncio.Event()
        self.seconds = 0.0
        """How long it takes to keep an object."""

    async def put(self, kind: Stored, task_id: UUID, owner_id: str, body: bytes) -> str:
        """Keep an object."""
        self._ask()
        await asyncio.sleep(self.seconds)
        path = f"{kind}/{owner_segment(owner_id)}/{task_id.hex}/{len(self.objects):016x}"
        self.objects[path] = body
        return str(Location(path, hashlib.sha256(body).hexdigest(), len(body)))

    async def get(self, location: str) -> bytes:
        """Return an object."""
        self._ask()
        place = Location.read(location)
        if place.path not in self.objects:
            raise Unreadable("missing")
        body = self.objects[place.path]
        if hashlib.sha256(body).hexdigest() != place.sha256:
            raise Unreadable("changed")
        return body

    async def belongs_to(self, name: str) -> bool:
        """It is another's, so that nobody collects from it."""
        del name
        return False

    def _ask(self) -> None:
        self.asked += 1
        if self.broken:
            raise ZeroDivisionError
        if self.away:
            self.refused.set()
            raise StorageAway("the shelf is away")
