"""The OpenAPI document, made of the routes: what is not a route is not in it, and the reverse."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api.example import ID, REFERENCE, example_of
from taskbell.producer.api.principal import Principal
from taskbell.producer.api.problems import KINDS, PROBLEM_JSON, Kind
from taskbell.producer.api.route import Operation, Route

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_CONVERTER: Final = re.compile(r":\w+}")
_NAME: Final = re.compile(r"{(\w+)}")
_EVERYWHERE: Final = ("malformed-request", "request-timeout", "header-too-large", "internal")
_BUSY: Final = ("overloaded", "database-away", "database-read-only", "not-migrated")
_SENDING: Final = ("payload-too-large", "unsupported-media-type", "invalid-task")
_ADMITTED: Final = ("unauthenticated", "forbidden", "invalid-task")
_LATER: Final = frozenset({429, 503})
_TASK: Final = "/tasks/{task_id}"
_OF_PATH: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "task_id": ({"type": "string", "format": "uuid"}, ID),
}
_DESCRIPTION: Final = (
    "Submit tasks and see what becomes of them. Everything that goes wrong is answered by a "
    "problem document (RFC 9457) whose `type` never changes. Another owner's task is answered like "
    "one that does not exist."
)


def route(routes: Sequence[Route]) -> Route:
    """Return the route that serves the document of these routes and of itself."""

    async def serve(request: Request, principal: Principal) -> Response:
        del request, principal
        return Response(written, media_type=_JSON)

    operation = Operation(
        "This document", "Health", answers={200: ("OpenAPI 3.1.", None)}, media=_JSON
    )
    own = Route("GET", "/openapi.json", None, serve, operation)
    written = json.dumps(document([*routes, own])).encode()
    return own


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document."""
    schemas = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for each in routes:
        operations = paths.setdefault(_CONVERTER.sub("}", each.path), {})
        operations[each.method.lower()] = _operation(each, routes, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "taskbell",
            "version": version("taskbell-producer"),
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in dict.fromkeys(e.operation.tag for e in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, or a token of the issuer that is trusted here.",
                }
            },
        },
    }


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    """Every model and the problem document, by name."""
    models = dict.fromkeys(model for each in routes for model in _models(each.operation))
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=REFERENCE + "{model}"
    )
    return {**definitions.get("$defs", {}), "Problem": _PROBLEM}


def _models(operation: Operation) -> list[type[BaseModel]]:
    models = [model for _, model in operation.answers.values()]
    return [model for model in (operation.body, *models) if model is not None]


def _operation(each: Route, routes: Sequence[Route], schemas: Mapping[str, Any]) -> dict[str, Any]:
    told = each.operation
    operation: dict[str, Any] = {
        "operationId": _identity(each),
        "summary": told.summary,
        "tags": [told.tag],
        "parameters": [*_of_path(each.path), *map(_with_example, told.parameters)],
        "responses": _answers(each, routes, schemas) | _problems(each),
    }
    if told.description:
        operation["description"] = told.description
    if told.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(told.body, schemas)}
    # None needed must be said: an absent one is inherited.
    operation["security"] = [] if each.scope is None else [{"bearer": [str(each.scope)]}]
    return operation


def _identity(each: Route) -> str:
    words = re.findall(r"[A-Za-z_]+", _CONVERTER.sub("}", each.path))
    return "_".join([each.method.lower(), *words])


def _of_path(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in _NAME.findall(_CONVERTER.sub("}", path)):
        schema, example = _OF_PATH.get(name, ({"type": "string", "minLength": 1}, "mails"))
        found.append(
            {"name": name, "in": "path", "required": True, "schema": schema, "example": example}
        )
    return found


def _with_example(parameter: Mapping[str, Any]) -> dict[str, Any]:
    if "example" in parameter or "examples" in parameter:
        return dict(parameter)
    return {**parameter, "example": example_of(parameter["schema"], {})}


def _content(model: type[BaseModel], schemas: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"$ref": REFERENCE + model.__name__}
    return {_JSON: {"schema": schema, "example": example_of(schema, schemas)}}


def _answers(each: Route, routes: Sequence[Route], schemas: Mapping[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, (sentence, model) in each.operation.answers.items():
        answer: dict[str, Any] = {"description": sentence, "headers": dict(_REQUEST_ID)}
        if model is not None:
            answer["content"] = _content(model, schemas)
        elif each.operation.media and status == 200:  # noqa: PLR2004 - what media is about
            answer["content"] = {each.operation.media: {"schema": _anything(each.operation.media)}}
        if (each.method, each.path) == ("POST", "/tasks"):
            answer["headers"]["Location"] = {"schema": {"type": "string"}}
            answer["links"] = _links(routes)
        answers[str(status)] = answer
    return answers


def _anything(media: str) -> dict[str, Any]:
    return {_JSON: {}, _EVENTS: _EVENT}.get(media, _TEXT)


def _links(routes: Sequence[Route]) -> dict[str, Any]:
    """What can be done with a task that was created."""
    return {
        _identity(each): {
            "operationId": _identity(each),
            "parameters": {"task_id": "$response.body#/task_id"},
        }
        for each in routes
        if each.path.startswith(_TASK)
    }


def _problems(each: Route) -> dict[str, Any]:
    """The problems this route can have, by status."""
    sending = _SENDING if each.operation.body is not None else ()
    names = {*each.operation.problems, *_EVERYWHERE, *sending}
    if each.scope is not None:
        names.update(_BUSY, _ADMITTED)
    by_status: dict[str, list[Kind]] = {}
    for kind in KINDS.values():
        if kind.name in names:
            by_status.setdefault(str(kind.status), []).append(kind)
    return {status: _refusal(kinds) for status, kinds in by_status.items()}


def _refusal(kinds: Sequence[Kind]) -> dict[str, Any]:
    later = _RETRY_AFTER if kinds[0].status in _LATER else {}
    examples = {kind.name: {"value": _example(kind)} for kind in kinds}
    document = {"schema": {"$ref": REFERENCE + "Problem"}, "examples": examples}
    return {
        "description": "; ".join(kind.title for kind in kinds),
        "headers": {**_REQUEST_ID, **later},
        "content": {PROBLEM_JSON: document},
    }


def _example(kind: Kind) -> dict[str, Any]:
    return {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status,
        "detail": kind.title,
        "instance": "urn:uuid:6f0f5f0e-3a3f-4b7e-9d8e-0a4b8f6f3c11",
    }


_REQUEST_ID: Final = {"X-Request-Id": {"schema": {"type": "string", "format": "uuid"}}}
_RETRY_AFTER: Final = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_EVENT: Final[dict[str, Any]] = {
    "description": "What each event is; `data` is JSON, of a `state` the task as it is shown.",
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {"id": _TEXT, "event": {"enum": ["state", "end"]}, "data": _TEXT},
}

_PROBLEM: Final[dict[str, Any]] = {
    "title": "Problem",
    "type": "object",
    "description": "RFC 9457. Kinds may have further members.",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "enum": [kind.type for kind in KINDS.values()]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string", "description": "The request, also in `X-Request-Id`."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {
                    "pointer": {
                        "type": "string",
                        "description": "A JSON pointer into the body, or `?name` of the query.",
                    },
                    "detail": {"type": "string"},
                },
            },
        },
        "task_id": {"type": "string", "format": "uuid"},
        "retry_after": {"type": "integer", "description": "Seconds."},
    },
}
