"""Payloads and results as they are, wherever they are kept."""

import asyncio
from typing import Any, Final, NamedTuple
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api import query
from taskbell.producer.api.front import visit_of
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.room import Share
from taskbell.producer.api.route import Operation, Route
from taskbell.shared.errors import StorageAway, Unreadable
from taskbell.shared.limits import PAYLOAD_BYTES
from taskbell.shared.sealing import Kind, is_sealed
from taskbell.shared.sealing.envelope import HEAD_BYTES
from taskbell.shared.statement import Statement
from taskbell.shared.statements import kept
from taskbell.shared.storage import Location, Storage

_JSON: Final = "application/json"
_LINKED: Final = "A link to the object storage, which opens without credentials for a short time."
_ASIDE_BYTES: Final = 1024 * 1024
# Nobody knows how long a row's content is before it is here.
_ROW_BYTES: Final = PAYLOAD_BYTES


class _Sought(NamedTuple):
    statement: Statement
    kind: Kind
    missing: str


_PAYLOAD: Final = _Sought(kept.PAYLOAD, Kind.PAYLOAD, "")
_RESULT: Final = _Sought(kept.RESULT, Kind.RESULT, "The task has no result")


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    contents = _Contents(parts)
    return [
        Route(
            "GET", "/tasks/{task_id}/payload", Scope.READ, contents.payload,
            _operation("Read what a task was given"),
        ),
        Route(
            "GET", "/tasks/{task_id}/result", Scope.READ, contents.result,
            _operation("Read what a task brought"),
        ),
    ]  # fmt: skip


def _operation(summary: str) -> Operation:
    return Operation(
        summary,
        "Tasks",
        answers={
            200: ("The JSON itself.", None),
            307: (_LINKED, None),
        },
        problems=("not-found", "erased", "storage-away", "overloaded"),
        media=_JSON,
    )  # fmt: skip


class _Contents:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def payload(self, request: Request, principal: Principal) -> Response:
        return await self._answer(request, principal, _PAYLOAD)

    async def result(self, request: Request, principal: Principal) -> Response:
        return await self._answer(request, principal, _RESULT)

    async def _answer(self, request: Request, principal: Principal, sought: _Sought) -> Response:
        task_id = query.task_id(request)
        query.given(request, ())
        share = self._parts.room.share()
        visit_of(request).held.callback(share.end)
        await share.become(_ROW_BYTES)
        rows = await self._parts.connections.run(
            sought.statement, task_id=task_id, owner_id=principal.reach
        )
        if not rows:
            raise Problem("not-found")
        (row,) = rows
        if row.location is not None:
            return await self._handed_out(task_id, row, sought, share)
        if row.clear is not None:
            body = row.clear.encode()
        elif row.sealed is not None:
            body = await self._opened(task_id, row, sought, row.sealed)
        else:
            raise Problem("not-found", sought.missing)
        await share.become(len(body))
        return Response(body, media_type=_JSON)

    async def _handed_out(self, task_id: UUID, row: Any, sought: _Sought, share: Share) -> Response:
        """Link to an object that is as it was sent; what is sealed is opened here."""
        storage = self._storage()
        sealed = is_sealed(await storage.beginning(row.location, HEAD_BYTES))
        if not sealed:
            link = await storage.link(row.location, self._parts.settings.api_link_seconds)
            if link is not None:
                return Response(None, 307, {"Location": link})
        size = Location.read(row.location).size
        await share.become(2 * size if sealed else size)
        body = await storage.get(row.location)
        if sealed:
            body = await self._opened(task_id, row, sought, body)
            await share.become(len(body))
        return Response(body, media_type=_JSON)

    async def _opened(self, task_id: UUID, row: Any, sought: _Sought, sealed: bytes) -> bytes:
        seals = self._parts.seals
        if seals is None:
            raise Unreadable("key unknown")
        await seals.learn(self._parts.connections, sealed=[sealed])
        whose = sought.kind, task_id, row.owner_id
        if len(sealed) > _ASIDE_BYTES:
            return await asyncio.to_thread(seals.open, *whose, sealed)
        return seals.open(*whose, sealed)

    def _storage(self) -> Storage:
        if self._parts.storage is None:
            raise StorageAway("there are objects, and TASKBELL_STORAGE_URL is not set")
        return self._parts.storage
