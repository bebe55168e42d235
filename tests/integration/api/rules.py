"""What each route of the HTTP interface lets whom see and touch: one line for each.

A route without a line here fails the tests beside it. Whoever adds a route says here whose things
it reaches, and everything that has to hold for that is then tried on it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route

from taskbell.producer.api.principal import Scope


class Reach(Enum):
    """Whose things a route is about."""

    PUBLIC = "nobody's: it answers without credentials and tells nothing of any task"
    ONE = "a task named by its id: another owner's is a 404 like one that never was"
    LISTED = "the caller's own: it lists nothing of another owner"
    NAMED = "tasks named in the body: another owner's are answered like unknown ones"
    NEW = "tasks it makes: they are the caller's own"
    SHARED = "what has no owner: queues, workers, numbers; it tells nothing of any task"


Body = Callable[[UUID], object]


@dataclass(frozen=True)
class Rule:
    """What has to hold for a route; ``body`` makes what is sent, given the id of a task."""

    scope: Scope | None
    reach: Reach
    body: Body | None = None
    query: dict[str, str] = field(default_factory=dict[str, str])


def _task(task_id: UUID) -> object:
    del task_id
    return {"type": "noop", "payload": {}, "idempotency_key": "theirs"}


def _tasks(task_id: UUID) -> object:
    return {"tasks": [_task(task_id)]}


def _letters(task_id: UUID) -> object:
    return {"task_ids": [str(task_id)]}


RULES: dict[str, Rule] = {
    "POST /tasks": Rule(Scope.SUBMIT, Reach.NEW, _task),
    "POST /tasks/batch": Rule(Scope.SUBMIT, Reach.NEW, _tasks),
    "GET /tasks": Rule(Scope.READ, Reach.LISTED),
    "GET /tasks/{task_id}": Rule(Scope.READ, Reach.ONE),
    "GET /tasks/{task_id}/payload": Rule(Scope.READ, Reach.ONE),
    "GET /tasks/{task_id}/result": Rule(Scope.READ, Reach.ONE),
    "GET /tasks/{task_id}/events": Rule(Scope.READ, Reach.ONE),
    "POST /tasks/{task_id}/cancel": Rule(Scope.CANCEL, Reach.ONE),
    "POST /tasks/{task_id}/redrive": Rule(Scope.OPERATE, Reach.ONE),
    "GET /dead-letters": Rule(Scope.READ, Reach.LISTED),
    "GET /dead-letters/causes": Rule(Scope.READ, Reach.LISTED),
    "GET /dead-letters/{task_id}": Rule(Scope.READ, Reach.ONE),
    "POST /dead-letters/redrive": Rule(Scope.OPERATE, Reach.NAMED, _letters),
    "GET /queues": Rule(Scope.OPERATE, Reach.SHARED),
    "POST /queues/{queue:path}/pause": Rule(Scope.OPERATE, Reach.SHARED),
    "POST /queues/{queue:path}/resume": Rule(Scope.OPERATE, Reach.SHARED),
    "GET /workers": Rule(Scope.OPERATE, Reach.SHARED),
    "GET /metrics": Rule(Scope.OPERATE, Reach.SHARED),
    "GET /livez": Rule(None, Reach.PUBLIC),
    "GET /readyz": Rule(None, Reach.PUBLIC),
    "GET /openapi.json": Rule(None, Reach.PUBLIC),
}
"""By method and path; HEAD keeps the rule of GET."""


@dataclass(frozen=True)
class Way:
    """One way into the interface: a method of a path."""

    method: str
    path: str

    @property
    def name(self) -> str:
        """Its line in the rules."""
        return f"{'GET' if self.method == 'HEAD' else self.method} {self.path}"

    @property
    def rule(self) -> Rule:
        """What has to hold for it."""
        return RULES[self.name]

    def url(self, task_id: UUID) -> str:
        """Its address for this task."""
        filled = self.path.replace("{task_id}", str(task_id))
        return filled.replace("{queue:path}", "default")


def ways_of(app: FastAPI) -> list[Way]:
    """Every way in, as the framework itself would find it; what is no plain route is told by type.

    So nothing gets in that was mounted or added behind the back of our own list.
    """
    return [way for route in app.routes for way in _ways(route)]


def _ways(route: BaseRoute) -> Iterable[Way]:
    if isinstance(route, Route):
        return [Way(method, route.path) for method in sorted(route.methods or {"ANY"})]
    return [Way(type(route).__name__, getattr(route, "path", "?"))]


def without_rule(app: FastAPI) -> list[str]:
    """The ways in that have no line in the rules."""
    return [way.name for way in ways_of(app) if way.name not in RULES]
