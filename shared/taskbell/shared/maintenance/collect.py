"""Delete objects that no row names: of transactions rolled back, of tasks pruned or sealed anew."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from taskbell.shared.clock import loop_time
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.errors import StorageAway
from taskbell.shared.events import Event, Level
from taskbell.shared.statements import storage as statements
from taskbell.shared.storage import Storage
from taskbell.shared.storage.location import Found, task_of

_BATCH = 1000
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ObjectsCollected(Event):
    """Objects were deleted that no task needs any more."""

    objects: int


@dataclass(frozen=True, slots=True)
class ObjectsNotCollected(Event):
    """The object storage could not be asked; the collector tries again later."""

    level: ClassVar[Level] = Level.WARNING
    error: str


@dataclass(frozen=True, slots=True)
class StorageOfAnother(Event):
    """Another database marked the root of the storage as its own, so nothing is collected.

    If that database is gone, delete the object ``taskbell`` at the root.
    """

    level: ClassVar[Level] = Level.WARNING


class Collect:
    """Objects older than ``keep`` seconds that no row has named for ``grace`` seconds.

    A transaction may upload long before it commits: hence ``keep``. Somebody may have read a row
    just before it named another object, or hold a link: hence ``grace``. A run looks at 1 000
    objects and the next goes on from there, at last from the beginning again.
    """

    name: ClassVar[str] = "collect"
    interval: float = 600.0

    def __init__(self, storage: Storage, *, keep: float = _DAY, grace: float = 600.0) -> None:
        self._storage = storage
        self._keep = keep
        self._grace = grace
        self._after = ""
        # Since when each was seen without a row: in the round before, and in this one so far.
        self._known: dict[str, float] = {}
        self._met: dict[str, float] = {}

    async def run_once(self, connection: DedicatedConnection) -> Event | None:
        """Collect a bounded number; returns how many went, if any."""
        try:
            return await self._collect(connection)
        except StorageAway as error:
            self._after = ""
            return ObjectsNotCollected(str(error))

    async def pause(self, connection: DedicatedConnection) -> float:
        """Ten minutes after a round; none within it: then the cost alone sets the pace."""
        del connection
        return 0.0 if self._after else self.interval

    async def _collect(self, connection: DedicatedConnection) -> Event | None:
        (row,) = await connection.run(statements.DATABASE_NAME)
        if not await self._storage.belongs_to(row.name):
            return StorageOfAnother()
        found = await self._storage.listed(self._after, _BATCH)
        gone = self._ripe(await self._orphans(connection, found))
        if gone:
            await self._storage.delete(gone)
        if len(found) == _BATCH:
            self._after = found[-1].path
        else:
            self._after, self._known, self._met = "", self._met, {}
        return ObjectsCollected(len(gone)) if gone else None

    async def _orphans(self, connection: DedicatedConnection, found: Iterable[Found]) -> list[str]:
        named = [(task_of(each.path), each) for each in found]
        ours = [(task_id, each) for task_id, each in named if task_id is not None]
        if not ours:
            return []
        rows = await connection.run(
            statements.ORPHANS,
            task_ids=[task_id for task_id, _ in ours],
            paths=[each.path for _, each in ours],
            written_at=[each.written_at for _, each in ours],
            keep=self._keep,
        )
        return [row.path for row in rows]

    def _ripe(self, orphans: Iterable[str]) -> list[str]:
        now = loop_time()
        ripe: list[str] = []
        for path in orphans:
            since = self._known.get(path, now)
            if now - since >= self._grace:
                ripe.append(path)
            else:
                self._met[path] = since
        return ripe
