"""What a task is given and what comes of it, where it is not kept in the clear and in the row.

A payload is fetched and opened before its handler starts. A large result is uploaded after the
handler and before the settlement, under the lease; results and errors are sealed as they are
settled. Content that cannot be had for now costs no try, one that is lost for good makes a dead
letter.
"""

import asyncio
import json
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar
from uuid import UUID

import psycopg

from taskbell.consumer.execution import DONE, UnreadablePayload, outcome_of
from taskbell.consumer.leases import Lease
from taskbell.consumer.stage import Stage
from taskbell.shared.connections import Connections
from taskbell.shared.database import Database
from taskbell.shared.errors import DatabaseAway, StorageAway, TaskbellError, Unreadable
from taskbell.shared.events import Event, Level, Observer
from taskbell.shared.lifecycle import (
    Completed,
    Diagnosis,
    Failed,
    Kept,
    Outcome,
    Rejected,
)
from taskbell.shared.limits import RESULT_BYTES, STORED_BYTES
from taskbell.shared.outage import Outage, without_values
from taskbell.shared.sealing import Kind, Seals, TaskSeal, is_sealed
from taskbell.shared.statements import content
from taskbell.shared.storage import Storage

_CONNECTIONS = 2
_PATIENCE = 30.0
_AWAY_SECONDS = (0.5, 1.5)
_AGAIN_SECONDS = (2.0, 6.0)
# What is longer is opened and read in a thread: on the loop it would hold up the other handlers.
_LONG = 256 * 1024


class ContentUnavailable(TaskbellError):
    """This worker lacks what it needs to read a payload; another may have it."""


@dataclass(frozen=True, slots=True)
class StorageLost(Event):
    """Large payloads or results cannot be read or written; it costs no task a try."""

    level: ClassVar[Level] = Level.WARNING
    error: str


@dataclass(frozen=True, slots=True)
class StorageFound(Event):
    """Large payloads and results can be read and written again."""


class Contents:
    """Opens payloads and keeps results for one worker.

    ``seals``: seal what comes of every task. ``storage``: where large payloads and results are.
    """

    def __init__(
        self, database: Database, seals: Seals | None, storage: Storage | None, observe: Observer
    ) -> None:
        self.seals = seals
        self.storage = storage
        self._observe = observe
        self._connections = Connections(database, "seal", _CONNECTIONS)
        self._outage = Outage("seal", observe)
        self._storage_lost = False
        self.result_bytes = RESULT_BYTES if storage is None else STORED_BYTES
        """The largest result that a handler may return."""

    async def open(self, lease: Lease) -> Outcome | None:
        """Set the attempt's payload and its seal; answers what comes of it if that cannot be."""
        hindrance = await outcome_of(partial(self._open, lease))
        if hindrance is DONE:
            return None
        lease.told.seal = None  # the words are our own, and tell nothing of the content
        return hindrance

    async def _open(self, lease: Lease) -> None:
        try:
            body = await self._body(lease)
            if self.seals is not None:
                await self._learn(self.seals, lease, body)
            if body is not None:
                long = len(body) > _LONG
                reading = partial(self._read, lease, body)
                lease.payload = await asyncio.to_thread(reading) if long else reading()
                lease.apart = None
        except Unreadable as error:
            # Another worker, or this one in a moment, may have the key; the rest is lost for good.
            if error.reason == "key unknown":
                raise
            raise UnreadablePayload(str(error)) from None

    async def _body(self, lease: Lease) -> bytes | None:
        """Return a payload that is apart as it is kept, fetched if need be."""
        if lease.apart is None or lease.apart.location is None:
            return lease.apart and lease.apart.sealed
        if self.storage is None:
            raise ContentUnavailable("the payload is kept as an object: set TASKBELL_STORAGE_URL")
        try:
            body = await self.storage.get(lease.apart.location)
        except StorageAway as error:
            self._lose_storage(error)
            # Held for a while: else a backlog would be claimed and given back without a rest.
            await asyncio.sleep(random.uniform(*_AWAY_SECONDS))  # noqa: S311 - jitter
            raise
        self._find_storage()
        return body

    async def _learn(self, seals: Seals, lease: Lease, body: bytes | None) -> None:
        owner_id = lease.context.owner_id
        try:
            # What was learnt is used at once: a moment later it may be forgotten again.
            await seals.learn(self._connections, (owner_id,))
            lease.told.seal = seals.for_task(lease.task_id, owner_id)
            lease.told.seals = seals
            lease.told.is_there = partial(self._is_there, asyncio.get_running_loop())
            await seals.learn(self._connections, sealed=(body,))
        except (DatabaseAway, psycopg.Error) as error:
            self._outage.lost(error)
            raise DatabaseAway(without_values(error)) from None
        self._outage.found()

    def _is_there(self, loop: asyncio.AbstractEventLoop, task_id: UUID) -> bool:
        """Ask from another thread than the loop's; raises ``DatabaseAway``, ``TimeoutError``."""
        asking = self._connections.run(content.IS_THERE, task_id=task_id)
        return bool(asyncio.run_coroutine_threadsafe(asking, loop).result(_PATIENCE))

    def _read(self, lease: Lease, body: bytes) -> object:
        ours = lease.apart is not None and lease.apart.sealed is not None
        if ours or is_sealed(body):
            if self.seals is None:
                raise ContentUnavailable("the payload is sealed: set TASKBELL_SEAL_KEYS")
            body = self.seals.open(Kind.PAYLOAD, lease.task_id, lease.context.owner_id, body)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):  # an object that a client wrote: nobody looked into it
            raise UnreadablePayload("the payload is not JSON, or nested too deeply") from None

    def is_large(self, lease: Lease, outcome: Outcome | None) -> bool:
        """Whether this is a result that belongs into the storage and will be settled."""
        if self.storage is None or not isinstance(outcome, Completed) or outcome.result is None:
            return False
        inline, length = self.storage.inline_bytes, len(outcome.result)
        # A character takes four bytes at most.
        large = length > inline or (4 * length > inline and len(outcome.result.encode()) > inline)
        return large and lease.told.stage is Stage.NONE and not lease.told.lost

    async def uploaded(self, lease: Lease, outcome: Outcome | None) -> Outcome | None:
        """Keep a large result in the storage; answers what is settled instead of it.

        While the storage is away, what the row can hold goes there. The rest is tried again until
        it is taken or the lease is lost, as a settlement is: the handler did its work.
        """
        if self.storage is None or not isinstance(outcome, Completed) or outcome.result is None:
            return outcome
        locations: list[str] = []
        uploading = partial(self._upload, self.storage, lease, outcome, locations)
        ended = await outcome_of(uploading)
        if ended is not DONE:
            return ended
        if locations:
            return Kept(location=locations[0])
        return None if lease.told.lost else outcome

    async def _upload(
        self, storage: Storage, lease: Lease, outcome: Completed, locations: list[str]
    ) -> None:
        sealing = partial(_kept, outcome.result or "", lease.told.seal)
        body, owner_id = await asyncio.to_thread(sealing), lease.context.owner_id
        while not (locations or lease.told.lost):
            try:
                locations.append(await storage.put("result", lease.task_id, owner_id, body))
            except StorageAway as error:
                self._lose_storage(error)
                if in_row(outcome) is not None:
                    return
                await asyncio.sleep(random.uniform(*_AGAIN_SECONDS))  # noqa: S311 - jitter
            else:
                self._find_storage()

    def _lose_storage(self, error: StorageAway) -> None:
        if not self._storage_lost:
            self._storage_lost = True
            self._observe(StorageLost(str(error)))

    def _find_storage(self) -> None:
        if self._storage_lost:
            self._storage_lost = False
            self._observe(StorageFound())

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()


def in_row(outcome: Outcome | None) -> Outcome | None:
    """Return a result that the row can hold although it is large; None: it cannot."""
    if isinstance(outcome, Completed) and len((outcome.result or "").encode()) > RESULT_BYTES:
        return None
    return outcome


def _kept(result: str, seal: TaskSeal | None) -> bytes:
    clear = result.encode()
    return clear if seal is None else seal.seal(Kind.RESULT, clear)


def sealed(outcome: Outcome, seal: TaskSeal) -> Outcome:
    """Return an outcome whose result and texts are sealed; classes and causes stay as they are."""
    match outcome:
        case Completed(str(result)):
            return Kept(sealed=seal.seal(Kind.RESULT, result.encode()))
        case Failed(diagnosis) | Rejected(diagnosis):
            return replace(outcome, diagnosis=_sealed_diagnosis(diagnosis, seal))
        case _:
            return outcome


def _sealed_diagnosis(clear: Diagnosis, seal: TaskSeal) -> Diagnosis:
    return replace(
        clear,
        error=seal.seal_text(Kind.ERROR, clear.error),
        traceback=seal.seal_text(Kind.TRACEBACK, clear.traceback),
    )
