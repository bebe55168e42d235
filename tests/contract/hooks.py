"""What JSON Schema cannot say of our requests, for the tool that makes them up.

Requests that the document allows and the interface must refuse all the same are passed over here;
each refusal has a test of its own among those of the API.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from uuid import uuid4

import schemathesis

_Hook = Callable[..., Any]
_hook: Callable[[_Hook], _Hook] = cast("Any", schemathesis).hook  # which is not typed whole

_YEARS: Final = timedelta(days=9 * 366)
_LONGEST_KEY: Final = 255
_INTEGERS: Final = range(-(2**63), 2**63)


@_hook
def filter_body(_context: Any, body: Any) -> bool:
    """Numbers have 64 bits, texts no NUL; tasks are due within ten years; no object is named.

    Only one that its owner put into the storage can be.
    """
    tasks = list(_tasks(body))
    return (
        all(map(_storable, _values(body)))
        and all(map(_soon, tasks))
        and not any(isinstance(task.get("payload_location"), str) for task in tasks)
    )


@_hook
def map_body(_context: Any, body: Any) -> Any:
    """Give every request a key of its own: one used before stands for another request."""
    for task in _tasks(body):
        key = task.get("idempotency_key")
        if isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY and "\0" not in key:
            task["idempotency_key"] = uuid4().hex
    return body


def _tasks(body: Any) -> Iterator[dict[str, Any]]:
    if isinstance(body, dict):
        asked = cast("dict[str, Any]", body)
        yield asked
        batch = asked.get("tasks")
        for each in cast("Sequence[Any]", batch) if isinstance(batch, list) else ():
            if isinstance(each, dict):
                yield cast("dict[str, Any]", each)


def _values(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield name
            yield from _values(inner)
    elif isinstance(value, list):
        for inner in cast("Sequence[Any]", value):
            yield from _values(inner)


def _storable(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value in _INTEGERS
    return not isinstance(value, str) or "\0" not in value


def _soon(task: dict[str, Any]) -> bool:
    instant = task.get("scheduled_at")
    if not isinstance(instant, str):
        return True
    try:
        due = datetime.fromisoformat(instant)
    except ValueError:  # malformed on purpose
        return True
    return due.tzinfo is None or due < datetime.now(UTC) + _YEARS
