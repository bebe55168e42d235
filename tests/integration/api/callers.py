"""What callers of the interface do again and again: submit, let fail, read, follow."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

import httpx2

from support.hands import Hands
from support.waiting import PATIENCE


async def submit(client: httpx2.AsyncClient, **task: Any) -> UUID:
    """A new task of the caller's."""
    answer = await client.post("/tasks", json={"type": "noop", "payload": {}, **task})
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["task_id"])


async def failed(client: httpx2.AsyncClient, worker: Hands, **task: Any) -> UUID:
    """A task of the caller's that failed for good; ``error`` and ``fingerprint`` say how."""
    how = {name: task.pop(name) for name in ("error", "fingerprint") if name in task}
    task_id = await submit(client, **task)
    await worker.fail(task_id, **how)
    return task_id


def shape(answer: httpx2.Response) -> tuple[int, dict[str, Any], list[str]]:
    """What of a problem does not change from request to request."""
    document = answer.json()
    assert document.pop("instance").startswith("urn:uuid:")
    return answer.status_code, document, sorted(answer.headers)


def problem(answer: httpx2.Response) -> str:
    """The name of the problem it was answered with."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    name: str = answer.json()["type"].rpartition(":")[2]
    return name


class Sent(NamedTuple):
    """One event of a stream."""

    name: str
    id: str
    data: Any


class Stream:
    """An open event stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._events = _events(response.aiter_lines())

    async def next(self) -> Sent | None:
        """The next event; None: the stream ended."""
        async with asyncio.timeout(PATIENCE):
            return await anext(self._events, None)

    async def state(self) -> dict[str, Any]:
        """The next state."""
        event = await self.next()
        assert event is not None
        assert event.name == "state"
        data: dict[str, Any] = event.data
        return data

    async def rest(self) -> list[Sent]:
        """Every event until the stream ends."""
        async with asyncio.timeout(PATIENCE):
            return [event async for event in self._events]


@asynccontextmanager
async def stream(
    client: httpx2.AsyncClient, task_id: UUID, last: str | None = None
) -> AsyncGenerator[Stream]:
    """Follow a task."""
    headers = {} if last is None else {"Last-Event-ID": last}
    async with client.stream("GET", f"/tasks/{task_id}/events", headers=headers) as response:
        yield Stream(response)


async def _events(lines: AsyncIterator[str]) -> AsyncGenerator[Sent]:
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif not line and "event" in fields:
            yield Sent(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
            fields = {}
