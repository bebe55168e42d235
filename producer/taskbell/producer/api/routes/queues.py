"""Queues and workers, for operators: they have no owner."""

from dataclasses import asdict
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api import query
from taskbell.producer.api.operators import Paused, Queues, Resumed, Workers, answer
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.route import Operation, Route
from taskbell.shared import queues
from taskbell.shared.limits import QUEUE_BYTES, QUEUE_CHARACTERS
from taskbell.shared.statements import states

_MOST_WORKERS: Final = 1000
_LONGEST_PAUSE: Final = 10 * 366 * 24 * 3600


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    lanes = _Lanes(parts)
    return [
        Route("GET", "/queues", Scope.OPERATE, lanes.list_many, _LIST),
        # A queue's name may hold slashes.
        Route("POST", "/queues/{queue:path}/pause", Scope.OPERATE, lanes.pause, _PAUSE),
        Route("POST", "/queues/{queue:path}/resume", Scope.OPERATE, lanes.resume, _RESUME),
        Route("GET", "/workers", Scope.OPERATE, lanes.workers, _WORKERS),
    ]


class _Lanes:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def list_many(self, request: Request, principal: Principal) -> Response:
        del principal
        after = query.name(query.given(request, {"after"}), "after") or ""
        found = await queues.list_many(self._parts.connections, after=after)
        return answer({"queues": [asdict(each) for each in found]})

    async def pause(self, request: Request, principal: Principal) -> Response:
        queue = _named(request)
        given = query.given(request, {"seconds"})
        seconds = query.whole(given, "seconds", 0, range(1, _LONGEST_PAUSE + 1)) or None
        until = await queues.pause(
            self._parts.connections, queue, actor=principal.name, seconds=seconds
        )
        return answer({"queue": queue, "paused": True, "paused_until": until})

    async def resume(self, request: Request, principal: Principal) -> Response:
        queue = _named(request)
        query.given(request, ())
        if not await queues.resume(self._parts.connections, queue, actor=principal.name):
            raise Problem("not-paused")
        return answer({"queue": queue, "paused": False})

    async def workers(self, request: Request, principal: Principal) -> Response:
        del principal
        query.given(request, ())
        rows = await self._parts.connections.run(states.WORKERS, limit=_MOST_WORKERS)
        return answer({"workers": [row._asdict() for row in rows]})


def _named(request: Request) -> str:
    queue: str = request.path_params["queue"]
    if len(queue) > QUEUE_BYTES or not QUEUE_CHARACTERS.fullmatch(queue):
        raise Problem("not-found")
    return queue


_LIST: Final = Operation(
    summary="Every queue that was measured, or about which something was decided",
    tag="Queues",
    parameters=[
        {
            "name": "after",
            "in": "query",
            "description": "Those behind this name: of the last queue of a full list.",
            "schema": query.NAME,
        }
    ],
    answers={200: (f"The queues, by name; {queues.MOST_LISTED} at most.", Queues)},
    problems=["invalid-task"],
)
_PAUSE: Final = Operation(
    summary="Let nothing of a queue be claimed; what runs goes on",
    tag="Queues",
    parameters=[
        {
            "name": "seconds",
            "in": "query",
            "description": "It goes on by itself then; without it, once it is resumed.",
            "schema": {"type": "integer", "minimum": 1, "maximum": _LONGEST_PAUSE},
        }
    ],
    answers={200: ("The queue is paused.", Paused)},
    problems=["not-found", "invalid-task"],
)
_RESUME: Final = Operation(
    summary="Let a queue be claimed again, at once",
    tag="Queues",
    answers={200: ("The queue goes on.", Resumed)},
    problems=["not-found", "not-paused", "invalid-task"],
)
_WORKERS: Final = Operation(
    summary="The processes that said they are there",
    tag="Queues",
    answers={200: ("The workers, by role and name.", Workers)},
    problems=["invalid-task"],
)
