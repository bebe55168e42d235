"""What the fields of a request must keep. Every refusal names the field and the limit."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from uuid import UUID

from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import (
    DELAY_SECONDS,
    OWNER_BYTES,
    QUEUE_BYTES,
    QUEUE_CHARACTERS,
    TYPE_BYTES,
)

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_TIME_ORDERED = 7
_REMEMBERED = 1024

Rule = Callable[[str, object], str]


def unstorable(text: str) -> str | None:
    """Say what keeps Postgres from storing a text; None if nothing does."""
    found = _UNSTORABLE.search(text)
    if found is None:
        return None
    return "contains a NUL character" if found[0] == "\x00" else "contains a lone surrogate"


def require_text(field: str, value: object, limit: int) -> str:
    """Return ``value`` if it is a text of 1…``limit`` bytes of UTF-8 that Postgres can store."""
    if not isinstance(value, str):
        raise InvalidTask(field, f"must be text, not {type(value).__name__}")
    if not value:
        raise InvalidTask(field, "must not be empty")
    if problem := unstorable(value):
        raise InvalidTask(field, problem)
    if (size := len(value.encode())) > limit:
        raise InvalidTask(field, f"{size} bytes of UTF-8, at most {limit} are allowed")
    # Enumerations are texts, too; drivers write those by name.
    return str.__str__(value)


def require_name(field: str, value: object, limit: int) -> str:
    """Return a text that has no control characters, so that people can read it in one line."""
    name = require_text(field, value, limit)
    if _CONTROL.search(name):
        raise InvalidTask(field, "contains a control character")
    return name


def _remembering(rule: Rule) -> Rule:
    """Look at a plain text once: few names serve many tasks. Whatever else comes is looked at."""
    remembered = lru_cache(_REMEMBERED)(rule)

    @wraps(rule)
    def look(field: str, value: object) -> str:
        return remembered(field, value) if type(value) is str else rule(field, value)

    return look


@_remembering
def require_type(field: str, value: object) -> str:
    """Return a name by which handlers are found."""
    return require_name(field, value, TYPE_BYTES)


@_remembering
def require_queue(field: str, value: object) -> str:
    """Return a name under which RabbitMQ will declare a queue."""
    name = require_name(field, value, QUEUE_BYTES)
    if not QUEUE_CHARACTERS.fullmatch(name):
        raise InvalidTask(
            field, "may only hold letters a-z and A-Z, digits, _.:@#/+- and blanks between them"
        )
    if name.startswith("amq."):
        raise InvalidTask(field, "must not start with 'amq.', which RabbitMQ keeps for itself")
    return name


def require_owner(field: str, value: object) -> str:
    """Return an owner's name; the empty one is the single owner of those who need no owners."""
    return "" if value == "" else require_text(field, value, OWNER_BYTES)


def require_whole(field: str, value: object, allowed: range) -> int:
    """Return a whole number within ``allowed``; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTask(field, f"must be a whole number, not {type(value).__name__}")
    number = int(value)
    if number not in allowed:
        raise InvalidTask(field, f"must lie within {allowed[0]} to {allowed[-1]}")
    return number


def require_delay(field: str, value: object) -> float:
    """Return seconds, from a number of seconds or a ``timedelta``."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTask(field, f"must be seconds or a timedelta, not {type(value).__name__}")
    if not 0 <= value <= DELAY_SECONDS:  # so written, NaN does not pass
        raise InvalidTask(field, f"must lie within 0 to {DELAY_SECONDS} seconds")
    return float(value)


def require_instant(field: str, value: object) -> datetime:
    """Return an instant in UTC; a time of day without a zone is none."""
    if not isinstance(value, datetime):
        raise InvalidTask(field, f"must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidTask(field, "must have a time zone: datetime.now(UTC), not datetime.now()")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidTask(field, "lies outside the calendar") from None


def require_soon_enough(field: str, instant: datetime, now: datetime) -> None:
    """Refuse an instant further ahead than the longest delay."""
    if (instant - now).total_seconds() > DELAY_SECONDS:
        raise InvalidTask(field, f"must lie within {DELAY_SECONDS} seconds from now")


def require_task_id(field: str, value: object) -> UUID:
    """Return a UUID whose order is the order of time, which lists and retention rely on."""
    if not isinstance(value, UUID):
        raise InvalidTask(field, f"must be a UUID, not {type(value).__name__}")
    if value.version != _TIME_ORDERED:
        raise InvalidTask(field, "must be of version 7: new_task_id() mints one")
    return value
