"""A route: what is asked where, and the scope it needs. There is none without."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api.principal import Principal, Scope

Handler = Callable[[Request, Principal], Awaitable[Response]]
"""Answers an admitted request; raises ``Problem`` or one of taskbell's exceptions."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What OpenAPI tells of a route."""

    summary: str
    tag: str
    parameters: Sequence[Mapping[str, Any]] = ()
    """OpenAPI parameter objects of the query; those of the path are known."""
    body: type[Any] | None = None
    """A pydantic model."""
    answers: Mapping[int, tuple[str, type[Any] | None]] = field(
        default_factory=dict[int, tuple[str, "type[Any] | None"]]
    )
    """By status: a sentence, and the model of the JSON."""
    problems: Sequence[str] = ()
    """Names of the problems besides those that every route can have."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    scope: Scope | None
    """None: public."""
    handler: Handler
    operation: Operation
