"""Cancel one task, redrive one."""

from time import monotonic
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api import query
from taskbell.producer.api.front import visit_of
from taskbell.producer.api.operators import Cancelling, Redriven, answer
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.route import Operation, Route
from taskbell.shared import dead_letters, tasks
from taskbell.shared.lifecycle import TaskStatus

_LONGEST_WAIT: Final = 30


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    control = _Control(parts)
    return [
        Route("POST", "/tasks/{task_id}/cancel", Scope.CANCEL, control.cancel, _CANCEL),
        Route("POST", "/tasks/{task_id}/redrive", Scope.OPERATE, control.redrive, _REDRIVE),
    ]


class _Control:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def cancel(self, request: Request, principal: Principal) -> Response:
        task_id = query.task_id(request)
        given = query.given(request, {"wait"})
        wait = query.whole(given, "wait", 0, range(_LONGEST_WAIT + 1))
        visit = visit_of(request)
        if wait:  # before anything is done: a refusal must mean that nothing was
            visit.held.enter_context(self._parts.streams.one(principal.owner_id))
        answers = await tasks.cancel_many(
            self._parts.connections, [task_id], actor=principal.name, owner_id=principal.reach
        )
        told = answers[task_id]
        if told == "requested" and wait:
            visit.leave()  # who waits is counted among the streams
            ended = await self._ended(task_id, wait)
            told = told if ended is None else f"too late: {ended}"
        return _answer(task_id, told)

    async def _ended(self, task_id: UUID, seconds: float) -> str | None:
        """The final status of a task that runs; None if it has none within so many seconds."""
        until = monotonic() + seconds
        with self._parts.watcher.following(task_id) as followed:
            while (left := until - monotonic()) > 0 and not followed.over:
                state = await followed.change(left)
                if state is not None and state.final:
                    return state.status
        return None

    async def redrive(self, request: Request, principal: Principal) -> Response:
        task_id = query.task_id(request)
        query.given(request, ())
        runner, reach = self._parts.connections, principal.reach
        if await dead_letters.redrive_many(runner, [task_id], actor=principal.name, owner_id=reach):
            return answer({"task_id": task_id, "status": TaskStatus.PENDING})
        if await tasks.find(runner, task_id, owner_id=reach) is None:
            raise Problem("not-found")
        raise Problem("not-failed", task_id=str(task_id))


def _answer(task_id: UUID, told: str) -> Response:
    match told:
        case "cancelled" | "too late: CANCELLED":  # what was wished for is so
            return answer({"task_id": task_id, "answer": "cancelled"})
        case "requested":
            return answer({"task_id": task_id, "answer": "requested"}, 202)
        case "unknown":
            raise Problem("not-found")
        case "moved":
            detail = "the task moves faster than it can be caught: try again"
            raise Problem("overloaded", detail, headers={"Retry-After": "1"})
        case _:
            raise Problem("too-late", told, task_id=str(task_id), answer=told)


_CANCEL: Final = Operation(
    summary="Cancel a task: at once while it waits, by request while it runs",
    tag="Tasks",
    parameters=[
        {
            "name": "wait",
            "in": "query",
            "description": "Seconds to wait for the end of a task that runs, which is then named.",
            "schema": {"type": "integer", "minimum": 0, "maximum": _LONGEST_WAIT, "default": 0},
        }
    ],
    answers={
        200: ("The task is cancelled.", Cancelling),
        202: ("Its handler is told, and may still complete first.", Cancelling),
    },
    problems=["not-found", "too-late", "invalid-task", "rate-limited", "overloaded"],
)
_REDRIVE: Final = Operation(
    summary="Let a failed task run again, with a fresh budget of tries",
    tag="Tasks",
    answers={200: ("The task waits.", Redriven)},
    problems=["not-found", "not-failed", "invalid-task"],
)
