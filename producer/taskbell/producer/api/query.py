"""What a path and a query say, as values; whatever else they say is refused."""

import re
from collections.abc import Collection
from typing import Any, Final, NoReturn
from uuid import UUID

from starlette.requests import Request

from taskbell.producer.api import bodies
from taskbell.producer.api.principal import Principal
from taskbell.producer.api.problems import Problem, echoed
from taskbell.producer.rules import require_owner
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import OWNER_BYTES

_UUID: Final = re.compile(bodies.UUID)
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_PRINTABLE: Final = re.compile(bodies.PRINTABLE)

NAME: Final[dict[str, Any]] = {"type": "string", "pattern": bodies.PRINTABLE}
"""The schema of what ``name`` reads."""
# Of so many characters each may take the four bytes that one takes at most.
OWNER: Final[dict[str, Any]] = {
    "type": "string", "maxLength": OWNER_BYTES // 4, "pattern": bodies.NO_NUL,
}  # fmt: skip
"""The schema of what ``owner`` reads."""


def task_id(request: Request) -> UUID:
    """Return the path's ``task_id``; what is none names no task."""
    text: str = request.path_params["task_id"]
    if not _UUID.fullmatch(text):
        raise Problem("not-found")
    return UUID(text)


def given(request: Request, known: Collection[str]) -> dict[str, str]:
    """Return the query's parameters; unknown ones, and one given twice, are refused."""
    found: dict[str, str] = {}
    if not request.scope["query_string"]:  # as with nearly all; to look through it costs more
        return found
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


def owner(found: dict[str, str], principal: Principal) -> str | None:
    """Return ``owner_id``, or whom the caller reaches; only an administrator may choose another."""
    owner_id = found.get("owner_id")
    if owner_id is None or owner_id == principal.reach:
        return principal.reach
    if principal.reach is not None:
        raise Problem("forbidden", "only an administrator sees what is another owner's")
    try:
        return require_owner("owner_id", owner_id)
    except InvalidTask as error:
        refuse("owner_id", error.problem)


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
