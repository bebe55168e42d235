"""What a path and a query say, as values; whatever else they say is refused."""

import re
from collections.abc import Collection
from typing import Final, NoReturn
from uuid import UUID

from starlette.requests import Request

from taskbell.producer.api import bodies
from taskbell.producer.api.problems import Problem, echoed

_UUID: Final = re.compile(bodies.UUID)
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_PRINTABLE: Final = re.compile(bodies.PRINTABLE)


def task_id(request: Request) -> UUID:
    """Return the path's ``task_id``; what is none names no task."""
    text: str = request.path_params["task_id"]
    if not _UUID.fullmatch(text):
        raise Problem("not-found")
    return UUID(text)


def given(request: Request, known: Collection[str]) -> dict[str, str]:
    """Return the query's parameters; unknown ones, and one given twice, are refused."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            refuse(name, f"is unknown here; known are {', '.join(sorted(known)) or 'none'}")
        if name in found:
            refuse(name, "was given twice")
        found[name] = value
    return found


def name(found: dict[str, str], parameter: str) -> str | None:
    """Return a name of printable ASCII of at most 200 characters; None if it was not given."""
    text = found.get(parameter)
    if text is not None and not _PRINTABLE.fullmatch(text):
        refuse(parameter, "must be 1 to 200 printable ASCII characters")
    return text


def whole(found: dict[str, str], parameter: str, default: int, allowed: range) -> int:
    """Return a whole number."""
    text = found.get(parameter)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or int(text) not in allowed:
        refuse(parameter, f"must be a whole number within {allowed[0]} to {allowed[-1]}")
    return int(text)


def refuse(parameter: str, problem: str) -> NoReturn:
    """Refuse a parameter of the query; in ``errors`` it is written ``?name``."""
    raise Problem("invalid-task", errors=[(f"?{echoed(parameter)}", problem)])
