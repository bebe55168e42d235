"""Lists of tasks."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api import query, rendering
from taskbell.producer.api.answers import ListedTasks
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.route import Operation, Route
from taskbell.shared.lifecycle import TaskStatus
from taskbell.shared.listing import MOST, Wanted, list_many

_LIMITS: Final = range(1, MOST + 1)
_DEFAULT: Final = 50
_NAMES: Final = ("type", "queue", "correlation_id")


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    return [Route("GET", "/tasks", Scope.READ, _Lists(parts).read, _LIST)]


class _Lists:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def read(self, request: Request, principal: Principal) -> Response:
        given = query.given(request, _PARAMETERS)
        limit = query.whole(given, "limit", _DEFAULT, _LIMITS)
        wanted = Wanted(_status(given), *(query.name(given, name) for name in _NAMES))
        owner_id = query.owner(given, principal)
        filters = {name: given[name] for name in given if name not in {"limit", "cursor"}}
        before = None
        if "cursor" in given:
            place = await self._parts.cursors.read(given["cursor"], principal.reach, filters)
            before = _place(place)
        page = await list_many(
            self._parts.connections, wanted, owner_id=owner_id, before=before, limit=limit
        )
        cursor = None
        if page.next is not None:
            cursor = await self._parts.cursors.write(page.next.bytes, principal.reach, filters)
        return Response(rendering.page(page.tasks, cursor), media_type="application/json")


def _place(place: bytes) -> UUID:
    if len(place) != len(UUID(int=0).bytes):  # a cursor of ours, of another list
        raise Problem("invalid-cursor")
    return UUID(bytes=place)


def _status(given: Mapping[str, str]) -> TaskStatus | None:
    status = given.get("status")
    if status is None:
        return None
    if status not in TaskStatus.__members__:
        query.refuse("status", f"must be one of {', '.join(TaskStatus)}")
    return TaskStatus(status)


def _parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "required": False,
        "schema": schema,
    }


_QUERY: Final[Sequence[Mapping[str, Any]]] = (
    _parameter("status", "Only tasks of this status.", type="string", enum=list(TaskStatus)),
    _parameter("type", "Only tasks of this type.", **query.NAME, examples=["send_receipt"]),
    _parameter("queue", "Only tasks of this queue.", **query.NAME, examples=["mails"]),
    _parameter("correlation_id", "Only tasks of this name.", **query.NAME, examples=["order-17"]),
    _parameter(
        "owner_id", "Only tasks of this owner; other owners' for administrators alone.",
        **query.OWNER, examples=["acme"],
    ),
    _parameter(
        "limit", "Most tasks on the page.", type="integer",
        minimum=1, maximum=MOST, default=_DEFAULT, examples=[_DEFAULT],
    ),
    _parameter("cursor", "`next` of the page before, with the same filters.", type="string"),
)  # fmt: skip
_PARAMETERS: Final = frozenset(each["name"] for each in _QUERY)

_LIST: Final = Operation(
    "List tasks, newest first",
    "Tasks",
    parameters=_QUERY,
    answers={200: ("A page.", ListedTasks)},
    problems=("invalid-cursor", "invalid-task"),
)
