"""Bodies of requests: bounded in size and time, strict JSON, and exactly the fields there are."""

import asyncio
import json
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from taskbell.producer.api.front import visit_of
from taskbell.producer.api.problems import Problem, echoed, pointer_to
from taskbell.producer.api.protocol import WHOLE
from taskbell.producer.api.settings import ApiSettings
from taskbell.shared.limits import PAYLOAD_DEPTH

Model = TypeVar("Model", bound=BaseModel)

_JSON: Final = "application/json"
_MOST_ERRORS: Final = 20
_CLOSE: Final = {"Connection": "close"}
_SAID: Final = {
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "extra_forbidden": "is unknown here",
    "missing": "is needed",
}
"""What pydantic says in words of its own, by its type."""


async def read(request: Request, settings: ApiSettings, model: type[Model]) -> Model:
    """Return the body as a model.

    Raises ``Problem``: ``unsupported-media-type``, ``payload-too-large`` (before the rest is read),
    ``request-timeout``, ``malformed-request``, ``invalid-task`` with a pointer to each fault.
    """
    _require_json(request)
    octets = await _octets(request, settings)
    try:
        return model.model_validate(_parsed(octets))
    except ValidationError as error:
        raise _refusal(error) from None


def _require_json(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    if kind.strip().lower() != _JSON:
        raise Problem("unsupported-media-type")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if charset not in {"", "charset=utf-8", "charset=utf8"}:
        raise Problem("unsupported-media-type", "application/json is always UTF-8")
    if "content-encoding" in request.headers:
        raise Problem("unsupported-media-type", "the body must not be compressed")


async def _octets(request: Request, settings: ApiSettings) -> bytes:
    most = settings.api_body_bytes
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise _too_large(most)
    if request.scope.get(WHOLE):  # most came with their head: a clock would cost more than they
        octets = await _joined(request, most)
    else:
        octets = await _joined_in_time(request, most, settings.api_body_seconds)
    visit_of(request).body_read = True
    return octets


async def _joined_in_time(request: Request, most: int, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await _joined(request, most)
    except TimeoutError:
        detail = f"the body did not arrive within {seconds:g} s"
        raise Problem("request-timeout", detail, headers=_CLOSE) from None


async def _joined(request: Request, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(most: int) -> Problem:
    return Problem("payload-too-large", f"at most {most} bytes are taken", headers=_CLOSE)


def _parsed(octets: bytes) -> Any:
    """Parse JSON as the library's own encoder writes it.

    Python's parser and not pydantic's: it lets through what JSON allows and Postgres cannot store
    (lone surrogates, numbers that are not finite, deep nesting), so that the refusal can point at
    it instead of calling the whole body unreadable.
    """
    try:
        return json.loads(octets.decode())
    except UnicodeDecodeError as error:
        raise Problem("malformed-request", f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Problem("malformed-request", f"not JSON: {error}") from None
    except RecursionError:
        problem = f"nested deeper than {PAYLOAD_DEPTH} arrays and objects"
        raise Problem("invalid-task", errors=[("", problem)]) from None
    except ValueError:  # Python parses no integer of more than 4 300 digits
        raise Problem("malformed-request", "not JSON we read: a number is too long") from None


def _refusal(error: ValidationError) -> Problem:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    errors = [(pointer_to(each["loc"]), echoed(_said(each))) for each in found]
    return Problem("invalid-task", errors=errors[:_MOST_ERRORS])


def _said(fault: ErrorDetails) -> str:
    """Say it to somebody who knows JSON, and neither pydantic nor the names of our classes."""
    return _SAID.get(fault["type"], fault["msg"].removeprefix("Value error, "))
