"""Submit tasks, one or many, and read one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api import body, query, rendering
from taskbell.producer.api.answers import ShownTask, Submitted, SubmittedMany
from taskbell.producer.api.bodies import BatchBody, TaskBody
from taskbell.producer.api.diagnoses import ErrorText, opened
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.payloads import Payloads
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem, later
from taskbell.producer.api.request import new_task, new_tasks
from taskbell.producer.api.route import Operation, Route
from taskbell.producer.new_task import NewTask
from taskbell.producer.submission import Enqueued
from taskbell.shared.errors import IdempotencyConflict, RateLimited, Unreadable
from taskbell.shared.guard import RETRIED
from taskbell.shared.lifecycle import TaskStatus
from taskbell.shared.sealing import Kind
from taskbell.shared.statements import reading

_TRIES: Final = 5
_JSON: Final = "application/json"

Value = TypeVar("Value")


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    tasks = _Tasks(parts)
    return [
        Route("POST", "/tasks", Scope.SUBMIT, tasks.submit, _SUBMIT),
        Route("POST", "/tasks/batch", Scope.SUBMIT, tasks.submit_many, _SUBMIT_MANY),
        Route("GET", "/tasks/{task_id}", Scope.READ, tasks.read, _READ),
    ]


class _Tasks:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._payloads = Payloads(parts)

    async def submit(self, request: Request, principal: Principal) -> Response:
        query.given(request, ())
        asked = await body.read(request, self._parts.settings, TaskBody)
        keys = request.headers.getlist("idempotency-key")
        task = new_task(asked, principal, keys, apart=self._payloads.apart)
        await self._parts.buckets.take(principal, 1)
        if self._payloads.apart:
            task = await self._payloads.keep(task, asked)

        async def enqueue() -> Enqueued:
            # One statement, so that it is a transaction of its own.
            async with self._parts.connections.one() as connection:
                return await self._parts.producer.enqueue(connection, task)

        enqueued = await _repeated(enqueue)
        self._parts.metrics.submitted(created=enqueued.created, known=not enqueued.created)
        status: str = TaskStatus.PENDING
        if not enqueued.created:
            status = (await self._statuses([enqueued.task_id]))[enqueued.task_id]
        return Response(
            rendering.submitted(enqueued.task_id, status),
            201 if enqueued.created else 200,
            {"Location": f"/tasks/{enqueued.task_id}"},
            media_type=_JSON,
        )

    async def submit_many(self, request: Request, principal: Principal) -> Response:
        query.given(request, ())
        if "idempotency-key" in request.headers:
            problem = "a batch takes no Idempotency-Key: give each task an idempotency_key"
            raise Problem("invalid-task", problem)
        asked = await body.read(request, self._parts.settings, BatchBody)
        tasks = new_tasks(asked.tasks, principal, apart=self._payloads.apart)
        await self._admit_many(principal, len(tasks))
        if self._payloads.apart:
            tasks = await self._payloads.keep_many(tasks, asked.tasks)

        async def enqueue() -> list[Enqueued]:
            async with self._parts.connections.transaction() as connection:
                return await self._parts.producer.enqueue_many(connection, tasks)

        try:
            enqueued = await _repeated(enqueue)
        except IdempotencyConflict as error:
            there = await self._parts.connections.run(
                reading.STATUS_OF_MANY, task_ids=[error.task_id]
            )
            raise _conflict(error, tasks, known=bool(there)) from error
        known = [each.task_id for each in enqueued if not each.created]
        self._parts.metrics.submitted(created=len(enqueued) - len(known), known=len(known))
        statuses = await self._statuses(known) if known else {}
        answers = [
            (each.task_id, statuses.get(each.task_id, TaskStatus.PENDING), each.created)
            for each in enqueued
        ]
        status = 201 if len(known) < len(enqueued) else 200
        return Response(rendering.submitted_many(answers), status, media_type=_JSON)

    async def _admit_many(self, principal: Principal, count: int) -> None:
        try:
            await self._parts.buckets.take(principal, count)
        except RateLimited as error:
            problem = "a batch is admitted as a whole; one of more tasks than the burst never is"
            raise later("rate-limited", error.retry_after, problem, limited=error.scope) from error

    async def _statuses(self, task_ids: Sequence[UUID]) -> dict[UUID, str]:
        """What known tasks are now; one that was pruned in this very moment counts as completed."""
        rows = await self._parts.connections.run(reading.STATUS_OF_MANY, task_ids=list(task_ids))
        return dict.fromkeys(task_ids, str(TaskStatus.COMPLETED)) | {
            row.task_id: row.status for row in rows
        }

    async def read(self, request: Request, principal: Principal) -> Response:
        task_id = query.task_id(request)
        query.given(request, ())
        rows = await self._parts.connections.run(
            reading.READ, task_id=task_id, owner_id=principal.reach
        )
        if not rows:
            raise Problem("not-found")
        row = rows[0]
        error, result = await self._opened(row)
        elsewhere = result is None and (row.result_sealed or row.result_location)
        location = f"/tasks/{row.task_id}/result" if elsewhere else None
        written = rendering.task(row, error=error, result=result, result_location=location)
        return Response(written, media_type=_JSON)

    async def _opened(self, row: Any) -> tuple[str | None, str | None]:
        """The error and the result in the clear, as far as they can be had from the row."""
        told = ErrorText(row.task_id, row.owner_id, row.error_message)
        (error,) = await opened(self._parts, [told])
        seals = self._parts.seals
        if seals is None or row.result_sealed is None:
            return error, row.result
        await seals.learn(self._parts.connections, sealed=[row.result_sealed])
        try:
            result = seals.open(Kind.RESULT, row.task_id, row.owner_id, row.result_sealed)
        except Unreadable:  # its own path says why
            return error, None
        return error, result.decode()


def _conflict(error: IdempotencyConflict, tasks: Sequence[NewTask], *, known: bool) -> Problem:
    """``known``: the key's task is there; otherwise it is of this batch, and was taken back."""
    places = [
        place for place, task in enumerate(tasks) if task.idempotency_key == error.idempotency_key
    ]
    problem = (
        "this key stands for another request"
        if known
        else "tasks of this batch give one key to different requests"
    )
    errors = [(f"/tasks/{place}/idempotency_key", problem) for place in places]
    if not known:
        return Problem("idempotency-conflict", errors=errors)
    return Problem("idempotency-conflict", errors=errors, task_id=str(error.task_id))


async def _repeated(enqueue: Callable[[], Awaitable[Value]]) -> Value:
    """Enqueue again where two transactions got in each other's way: nothing was written then."""
    for _ in range(_TRIES - 1):
        try:
            return await enqueue()
        except RETRIED:
            continue
    return await enqueue()


_SUBMIT: Final = Operation(
    "Create a task",
    "Tasks",
    body=TaskBody,
    answers={
        201: ("The task was created.", Submitted),
        200: ("The idempotency key was used before, for the same request: this is its task.",
              Submitted),
    },
    problems=(
        "malformed-request", "request-timeout", "payload-too-large", "unsupported-media-type",
        "invalid-task", "idempotency-conflict", "rate-limited", "queue-full",
    ),
)  # fmt: skip

_SUBMIT_MANY: Final = Operation(
    "Create tasks, all of them or none",
    "Tasks",
    body=BatchBody,
    answers={
        201: ("At least one task was created.", SubmittedMany),
        200: ("All of them were known.", SubmittedMany),
    },
    problems=_SUBMIT.problems,
)

_READ: Final = Operation(
    "Show a task",
    "Tasks",
    answers={200: ("The task.", ShownTask)},
    problems=("not-found",),
)
