"""A route: what is asked where, and the scope it needs. There is none without."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
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
    body: type[BaseModel] | None = None
    """A pydantic model; its example is made of the examples of its fields."""
    answers: Mapping[int, tuple[str, type[BaseModel] | None]] = field(
        default_factory=dict[int, tuple[str, "type[BaseModel] | None"]]
    )
    """By status: a sentence, and the model of the JSON."""
    problems: Sequence[str] = ()
    """Names of the problems besides those that every route can have."""
    media: str | None = None
    """The media type of an answer of status 200 that has no model."""
    description: str = ""
    """More than the summary, in Markdown."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    scope: Scope | None
    """None: public."""
    handler: Handler
    operation: Operation
