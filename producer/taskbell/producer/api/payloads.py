"""Where the payloads of submissions go: with the row, or to the storage before it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from taskbell.producer.api.bodies import TaskBody
from taskbell.producer.api.parts import Parts
from taskbell.producer.new_task import NewTask
from taskbell.producer.stored import StoredPayload
from taskbell.shared.errors import InvalidTask
from taskbell.shared.storage import Storage


class Payloads:
    """Completes requests that were made without their payloads, where there is a storage."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def apart(self) -> bool:
        """Whether requests are made without their payloads, and then completed here."""
        return self._parts.storage is not None

    async def keep(self, task: NewTask, asked: TaskBody) -> NewTask:
        """Return the request with its payload; a large one is stored.

        What is stored for a request that fails is collected later. Raises ``InvalidTask``,
        ``StorageAway``, ``DatabaseAway``.
        """
        storage = self._parts.storage
        if storage is None:
            return task
        if asked.payload_location is not None:
            payload = await self._offered(storage, asked.payload_location, task.owner_id or "")
        else:
            if self._parts.seals is not None:
                await self._parts.seals.learn(self._parts.connections, [task.owner_id or ""])
            payload = await self._parts.producer.put(asked.payload, task.owner_id)
        return replace(task, payload=payload)

    async def keep_many(self, tasks: Sequence[NewTask], asked: Sequence[TaskBody]) -> list[NewTask]:
        """Return the requests with their payloads; the first that is refused is named."""
        kept = await asyncio.gather(
            *(self.keep(task, each) for task, each in zip(tasks, asked, strict=True)),
            return_exceptions=True,
        )
        for place, each in enumerate(kept):
            if isinstance(each, InvalidTask):
                raise InvalidTask(f"tasks[{place}].{each.field}", each.problem) from each
            if isinstance(each, BaseException):
                raise each
        return [each for each in kept if isinstance(each, NewTask)]

    async def _offered(self, storage: Storage, location: str, owner_id: str) -> StoredPayload:
        if self._parts.seals is not None:
            raise InvalidTask("payload_location", "payloads are sealed here: send the payload")
        try:
            await storage.offered(location, owner_id)
        except ValueError as error:
            raise InvalidTask("payload_location", str(error)) from error
        return StoredPayload.offered(location, owner_id)
