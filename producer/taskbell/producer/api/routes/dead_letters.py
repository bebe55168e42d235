"""Dead letters: pages of them, their causes, one with its history; redrive many."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api import body, query
from taskbell.producer.api.diagnoses import ErrorText, opened
from taskbell.producer.api.letters import (
    Causes,
    Inspected,
    Letters,
    RedriveMany,
    RedrivenMany,
    shown_attempt,
    shown_cause,
    shown_letter,
)
from taskbell.producer.api.operators import answer
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.route import Operation, Route
from taskbell.shared import dead_letters
from taskbell.shared.dead_letters import DeadLetter, Filters, Place
from taskbell.shared.sealing import Kind
from taskbell.shared.statements import outbox, states

_FILTERS: Final = frozenset({"queue", "type", "cause", "owner_id"})
REDRIVEN_AT_MOST: Final = 10_000
"""By one call; the caller repeats it."""

_MOST: Final = range(1, 201)
_USUAL: Final = 50
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    letters = _Letters(parts)
    return [
        Route("GET", "/dead-letters", Scope.READ, letters.list_many, _LIST),
        Route("GET", "/dead-letters/causes", Scope.READ, letters.causes, _CAUSES),
        Route("POST", "/dead-letters/redrive", Scope.OPERATE, letters.redrive, _REDRIVE),
        Route("GET", "/dead-letters/{task_id}", Scope.READ, letters.show, _SHOW),
    ]


class _Letters:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def list_many(self, request: Request, principal: Principal) -> Response:
        given = query.given(request, _FILTERS | {"limit", "cursor"})
        only = _filters(given, principal)
        limit = query.whole(given, "limit", _USUAL, _MOST)
        cursors, signed = self._parts.cursors, {"list": "dead letters", **only.given}
        after = None
        if "cursor" in given:
            after = _place(await cursors.read(given["cursor"], principal.reach, signed))
        found = await dead_letters.list_many(
            self._parts.connections, only, after=after, limit=limit
        )
        errors = await opened(self._parts, [_error(each) for each in found])
        following = None
        if len(found) == limit:
            place = _written(found[-1].place)
            following = await cursors.write(place, principal.reach, signed)
        shown = [shown_letter(each, error) for each, error in zip(found, errors, strict=True)]
        return answer({"dead_letters": shown, "next": following})

    async def causes(self, request: Request, principal: Principal) -> Response:
        given = query.given(request, _FILTERS | {"limit"})
        only = _filters(given, principal)
        limit = query.whole(given, "limit", _USUAL, _MOST)
        found = await dead_letters.causes(self._parts.connections, only, limit=limit)
        examples = [each.example for each in found if each.example is not None]
        rows = await self._parts.connections.run(states.OWNERS, task_ids=examples)
        owners = {row.task_id: row.owner_id for row in rows}
        texts = [
            # One that was redriven or discarded meanwhile tells nothing.
            ErrorText(example, owners[example], each.last_error)
            if (example := each.example) in owners and example is not None
            else ErrorText(UUID(int=0), "", None)
            for each in found
        ]
        errors = await opened(self._parts, texts)
        shown = [shown_cause(each, error) for each, error in zip(found, errors, strict=True)]
        return answer({"causes": shown})

    async def show(self, request: Request, principal: Principal) -> Response:
        task_id = query.task_id(request)
        query.given(request, ())
        found = await dead_letters.show(self._parts.connections, task_id, owner_id=principal.reach)
        if found is None:
            raise Problem("not-found")
        owner_id, history = found.letter.owner_id, found.history
        error, *rest = await opened(
            self._parts,
            [
                _error(found.letter),
                *(ErrorText(task_id, owner_id, each.error) for each in history),
                *(ErrorText(task_id, owner_id, each.traceback, Kind.TRACEBACK) for each in history),
            ],
        )
        inside = principal.may(Scope.OPERATE)
        shown = [
            shown_attempt(each, rest[n], rest[len(history) + n], inside=inside)
            for n, each in enumerate(history)
        ]
        return answer({**shown_letter(found.letter, error), "history": shown})

    async def redrive(self, request: Request, principal: Principal) -> Response:
        query.given(request, ())
        asked = await body.read(request, self._parts.settings, RedriveMany)
        runner, actor, reach = self._parts.connections, principal.name, principal.reach
        if asked.task_ids is not None:
            ids = [UUID(each) for each in asked.task_ids]
            done = await dead_letters.redrive_many(
                runner, ids, actor=actor, owner_id=reach, rate=asked.rate
            )
            return answer({"redriven": len(done), "more": False})
        only = Filters(asked.queue, asked.type, reach, asked.cause)
        began = (await runner.run(outbox.CLOCK))[0].now
        redriven = await dead_letters.redrive_all(
            runner, only, actor=actor, rate=asked.rate, limit=REDRIVEN_AT_MOST
        )
        # What died again meanwhile is not more: whoever repeats the call would never be done.
        more = bool(redriven) and await dead_letters.some_until(runner, only, began)
        return answer({"redriven": redriven, "more": more})


def _filters(given: dict[str, str], principal: Principal) -> Filters:
    queue, task_type, cause = (query.name(given, each) for each in ("queue", "type", "cause"))
    return Filters(queue, task_type, query.owner(given, principal), cause)


def _place(octets: bytes) -> Place:
    microseconds = int.from_bytes(octets[:8], signed=True)
    return Place(_EPOCH + microseconds * _MICROSECOND, UUID(bytes=octets[8:]))


def _written(place: Place) -> bytes:
    microseconds = (place.failed_at - _EPOCH) // _MICROSECOND
    return microseconds.to_bytes(8, signed=True) + place.task_id.bytes


def _error(letter: DeadLetter) -> ErrorText:
    return ErrorText(letter.task_id, letter.owner_id, letter.last_error)


_NARROWING: Final = [
    {"name": "queue", "in": "query", "description": "Of this queue.", "schema": query.NAME},
    {"name": "type", "in": "query", "description": "Of this type.", "schema": query.NAME},
    {"name": "cause", "in": "query", "description": "That failed so.", "schema": query.NAME},
    {
        "name": "owner_id",
        "in": "query",
        "description": "Of this owner; for administrators, who else see everybody's.",
        "schema": query.OWNER,
    },
    {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": _MOST[-1], "default": _USUAL},
    },
]
_CURSOR: Final = {
    "name": "cursor",
    "in": "query",
    "description": "The `next` of the page before, with the same filters.",
    "schema": {"type": "string", "maxLength": 200},
}
_LIST: Final = Operation(
    summary="Failed tasks and why, the newest first",
    tag="Dead letters",
    parameters=[*_NARROWING, _CURSOR],
    answers={200: ("A page.", Letters)},
    problems=["invalid-cursor", "invalid-task"],
)
_CAUSES: Final = Operation(
    summary="Failed tasks grouped by what went wrong, the most frequent first",
    tag="Dead letters",
    parameters=_NARROWING,
    answers={200: ("The causes.", Causes)},
    problems=["invalid-task"],
)
_SHOW: Final = Operation(
    summary="One dead letter with every failed attempt",
    tag="Dead letters",
    answers={200: ("The dead letter.", Inspected)},
    problems=["not-found", "invalid-task"],
)
_REDRIVE: Final = Operation(
    summary="Let failed tasks run again: some, or all of a cause, queue or type",
    tag="Dead letters",
    body=RedriveMany,
    answers={200: ("They wait; repeat the call while there are more.", RedrivenMany)},
    problems=["invalid-task", "payload-too-large", "unsupported-media-type"],
)
