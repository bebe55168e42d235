"""A task's changes as server-sent events.

The stream tells states, not a log of events: the present one first, then each that can be seen
until a final one. Whoever reconnects with ``Last-Event-ID`` is told only what differs from it.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator
from time import monotonic
from typing import Any, Final
from uuid import UUID

import psycopg
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from taskbell.producer.api import query, rendering
from taskbell.producer.api.diagnoses import ErrorText, opened
from taskbell.producer.api.front import visit_of
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.route import Operation, Route
from taskbell.producer.api.watcher import FINAL, Followed
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.sealing import SEALED
from taskbell.shared.statements import reading

_MEDIA: Final = "text/event-stream"
_BEAT_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 1.0
_REFUSED: Final = frozenset({401, 403})
_AWAY: Final = (DatabaseAway, psycopg.Error, Problem)  # a problem, if the issuer is away
_BEAT: Final = b": beat\n\n"
_RETRY: Final = b"retry: 2000\n\n"


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    events = _Events(parts)
    return [Route("GET", "/tasks/{task_id}/events", Scope.READ, events.follow, _EVENTS)]


class _Events:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def follow(self, request: Request, principal: Principal) -> Response:
        task_id = query.task_id(request)
        query.given(request, ())
        row = await self._read(task_id, principal)
        if row is None:
            raise Problem("not-found")
        last = request.headers.get("last-event-id", "")
        if row.status in FINAL and _id(row) == last:
            return Response(status_code=204)  # which tells an EventSource to stop
        visit_of(request).held.enter_context(self._parts.streams.one(principal.owner_id))
        return StreamingResponse(self._stream(row, request, last), media_type=_MEDIA)

    async def _read(self, task_id: UUID, principal: Principal) -> Any:
        rows = await self._parts.connections.run(
            reading.READ, task_id=task_id, owner_id=principal.reach
        )
        return rows[0] if rows else None

    async def _stream(self, row: Any, request: Request, sent: str) -> AsyncGenerator[bytes]:
        ends_at = monotonic() + self._parts.settings.api_stream_seconds
        task_id: UUID = row.task_id
        with self._parts.watcher.following(task_id) as followed:
            yield _RETRY
            while row is not None:
                if _id(row) != sent:
                    sent = _id(row)
                    yield await self._event(row, sent)
                if row.status in FINAL:
                    yield f"id: {sent}\nevent: end\ndata: {{}}\n\n".encode()
                    return
                while not await self._changed(followed, ends_at):
                    if followed.over or monotonic() >= ends_at:
                        return
                    if not await self._may_stay(request):
                        return
                    yield _BEAT
                row = await self._read_patiently(task_id, request, followed, ends_at)

    async def _changed(self, followed: Followed, ends_at: float) -> bool:
        left = max(0.0, ends_at - monotonic())
        return await followed.change(min(_BEAT_SECONDS, left)) is not None

    async def _may_stay(self, request: Request) -> bool:
        """Whether it is still admitted; who cannot be asked about it may."""
        try:
            return await self._admitted(request) is not None
        except _AWAY:
            return True

    async def _admitted(self, request: Request) -> Principal | None:
        """Who follows, if that is still allowed: credentials are believed for a short time only."""
        try:
            return await self._parts.gatekeeper.admit(request, Scope.READ)
        except Problem as problem:
            if problem.kind.status in _REFUSED:
                return None
            raise

    async def _read_patiently(
        self, task_id: UUID, request: Request, followed: Followed, ends_at: float
    ) -> Any:
        """Read it, however often the database is away.

        None: it is gone, the stream ends, or who follows may not any more.
        """
        while not followed.over and monotonic() < ends_at:
            try:
                principal = await self._admitted(request)
                return principal and await self._read(task_id, principal)
            except _AWAY:  # the watcher tells the outage
                await asyncio.sleep(_AGAIN_SECONDS)
        return None

    async def _event(self, row: Any, event_id: str) -> bytes:
        try:
            (error,) = await opened(
                self._parts, [ErrorText(row.task_id, row.owner_id, row.error_message)]
            )
        except DatabaseAway:
            error = SEALED
        kept = row.result is not None or row.result_sealed or row.result_location
        location = f"/tasks/{row.task_id}/result" if kept else None
        written = rendering.task(row, error=error, result=None, result_location=location)
        return b"id: %s\nevent: state\ndata: %s\n\n" % (event_id.encode(), written)


def _id(row: Any) -> str:
    """What a state is called: the same for the same state, whichever process tells it."""
    progress = "" if row.progress is None else f"-{zlib.crc32(row.progress.encode()):08x}"
    return f"{row.attempts}-{row.status}{progress}"


_EVENTS: Final = Operation(
    summary="Follow a task until it ends, as server-sent events",
    tag="Tasks",
    parameters=[
        {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The state that is known; sent again only if it is no longer so.",
            "schema": {"type": "string"},
        }
    ],
    answers={
        200: ("`state` for each state (the task, without its result), then `end`.", None),
        204: ("The known state is the task's final one.", None),
    },
    problems=["not-found", "invalid-task", "rate-limited", "overloaded"],
    media=_MEDIA,
)
