"""Where the payloads of submissions go: with the row, or to the storage before it."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from taskbell.producer.api.bodies import TaskBody
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.registrar import KnownPayload
from taskbell.producer.ask import key_hash, request_hash
from taskbell.producer.new_task import NewTask
from taskbell.producer.stored import Parcel, StoredPayload, parcel_of
from taskbell.producer.terms import Terms
from taskbell.shared.admission import Verdict, refusal
from taskbell.shared.errors import InvalidTask
from taskbell.shared.ids import TaskId
from taskbell.shared.limits import PAYLOAD_BYTES
from taskbell.shared.statements import admission
from taskbell.shared.storage import Storage

_AT_ONCE: Final = 8


class Payloads:
    """Completes requests that were made without their payloads, where there is a storage."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._terms = Terms(
            "", ring=False, payload_limit=PAYLOAD_BYTES, seals=parts.seals, storage=parts.storage
        )

    @property
    def apart(self) -> bool:
        """Whether requests are made without their payloads, and then completed here."""
        return self._parts.storage is not None

    async def keep(self, task: NewTask, asked: TaskBody) -> NewTask:
        """Return the request with its payload; a large one is stored.

        Not for a key that is known nor in a queue that is full, as far as one look before tells.
        What is stored for a task that is then not born the ``Registrar`` deletes, or the collector.
        Raises ``InvalidTask``, ``QueueFull``, ``StorageAway``, ``DatabaseAway``.
        """
        if self._parts.storage is None:
            return task
        await self._learn([task])
        parcel = self._packed(task, asked)
        (kept,) = await self._stored(self._parts.storage, [_Draft(task, parcel)])
        return kept

    async def keep_many(self, tasks: Sequence[NewTask], asked: Sequence[TaskBody]) -> list[NewTask]:
        """Return the requests with their payloads; the first that is refused is named."""
        if self._parts.storage is None:
            return list(tasks)
        await self._learn(tasks)
        drafts: list[_Draft] = []
        for place, (task, each) in enumerate(zip(tasks, asked, strict=True)):
            try:
                drafts.append(_Draft(task, self._packed(task, each)))
            except InvalidTask as error:
                raise _named(place, error) from error
        return await self._stored(self._parts.storage, drafts, named=True)

    async def _learn(self, tasks: Iterable[NewTask]) -> None:
        if self._parts.seals is not None:
            owners = {task.owner_id or "" for task in tasks}
            await self._parts.seals.learn(self._parts.connections, owners)

    def _packed(self, task: NewTask, asked: TaskBody) -> Parcel:
        if asked.payload_location is None:
            return parcel_of(asked.payload, task.owner_id, self._terms)
        if self._parts.seals is not None:
            raise InvalidTask("payload_location", "payloads are sealed here: send the payload")
        return Parcel(StoredPayload.offered(asked.payload_location, task.owner_id or ""), None)

    async def _stored(
        self, storage: Storage, drafts: "Sequence[_Draft]", *, named: bool = False
    ) -> list[NewTask]:
        known = await self._known(drafts) if any(each.is_apart for each in drafts) else {}
        kept: list[NewTask] = []
        for start in range(0, len(drafts), _AT_ONCE):
            places = range(start, min(start + _AT_ONCE, len(drafts)))
            placed = await asyncio.gather(
                *(_placed(storage, drafts[place], known.get(place)) for place in places),
                return_exceptions=True,
            )
            kept += [each for each in placed if isinstance(each, NewTask)]
            for place, each in zip(places, placed, strict=True):
                if isinstance(each, BaseException):
                    self._parts.producer.sweeper.sweep(_written(kept))
                    if named and isinstance(each, InvalidTask):
                        raise _named(place, each) from each
                    raise each
        return kept

    async def _known(self, drafts: "Sequence[_Draft]") -> "dict[int, _Known]":
        """Look once what would come of them; raises ``QueueFull`` if nothing would."""
        keys = [each.task.idempotency_key for each in drafts]
        rows = await self._parts.connections.run(
            admission.LOOK,
            owner_ids=[each.task.owner_id or "" for each in drafts],
            key_hashes=[None if key is None else key_hash(key) for key in keys],
            queues=[each.task.queue for each in drafts],
        )
        if rows[0].shut is not None:
            raise refusal(Verdict.read(rows[0].shut), random.random())  # noqa: S311 - jitter
        return {
            row.place: _Known(row.task_id, row.request_hash)
            for row in rows
            if row.place is not None
        }


class _Draft(NamedTuple):
    task: NewTask
    parcel: Parcel

    @property
    def is_apart(self) -> bool:
        """Whether it is kept, or to be kept, in the storage."""
        return self.parcel.body is not None or self.parcel.payload.location is not None


class _Known(NamedTuple):
    task_id: TaskId
    request_hash: bytes


async def _placed(storage: Storage, draft: _Draft, known: _Known | None) -> NewTask:
    stored, body = draft.parcel
    if not draft.is_apart:
        return replace(draft.task, payload=stored)
    if known is not None:
        is_same = request_hash(replace(draft.task, payload=stored)) == known.request_hash
        parts = stored.task_id, stored.owner_id, stored.location, stored.encoded
        return replace(draft.task, payload=KnownPayload(*parts, known.task_id, is_same))
    if body is not None:
        location = await storage.put("payload", stored.task_id, stored.owner_id, body)
        return replace(draft.task, payload=replace(stored, location=location))
    try:
        await storage.offered(stored.location or "", stored.owner_id)
    except ValueError as error:
        raise InvalidTask("payload_location", str(error)) from error
    return replace(draft.task, payload=stored)


def _written(tasks: Iterable[NewTask]) -> list[str]:
    """Return the objects that were written for these."""
    payloads = [each.payload for each in tasks]
    locations = [each.location for each in payloads if isinstance(each, StoredPayload)]
    return [each for each in locations if each is not None and each.startswith("payload/")]


def _named(place: int, error: InvalidTask) -> InvalidTask:
    return InvalidTask(f"tasks[{place}].{error.field}", error.problem)
