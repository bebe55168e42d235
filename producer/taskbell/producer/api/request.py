"""A body and its headers as the library's own request: whatever it refuses is refused here."""

import re
from collections.abc import Sequence
from typing import Any, Final

from taskbell.producer.api.bodies import TaskBody
from taskbell.producer.api.line import line_of
from taskbell.producer.api.principal import Principal
from taskbell.producer.api.problems import Problem
from taskbell.producer.new_task import NewTask
from taskbell.shared.errors import InvalidTask

_KEY: Final = re.compile(r"[ -~]{1,255}")
_OPTIONS: Final = (
    "queue",
    "priority",
    "max_attempts",
    "partition_key",
    "correlation_id",
    "idempotency_key",
    "delay",
    "scheduled_at",
)


def new_task(
    asked: TaskBody, principal: Principal, keys: Sequence[str] = (), *, apart: bool = False
) -> NewTask:
    """Return what the caller asks for, as its own; raises ``InvalidTask``, ``Problem``.

    ``keys``: the values of the header ``Idempotency-Key``. ``apart``: without its payload, which
    ``Payloads`` then brings.
    """
    if asked.payload_location is not None:
        if asked.payload is not None:
            raise InvalidTask("payload_location", "cannot be combined with a payload")
        if not apart:
            raise InvalidTask("payload_location", "there is no storage here: send the payload")
    options: dict[str, Any] = {
        name: value for name in _OPTIONS if (value := getattr(asked, name)) is not None
    }
    if keys:
        options["idempotency_key"] = _one_key(keys, asked.idempotency_key)
    if asked.partition_key is not None:
        options["partition_key"] = line_of(principal.owner_id, asked.partition_key)
    payload = None if apart else asked.payload
    return NewTask(asked.type, payload, owner_id=principal.owner_id, **options)


def new_tasks(
    asked: Sequence[TaskBody], principal: Principal, *, apart: bool = False
) -> list[NewTask]:
    """Return what the caller asks for, in its order; a refusal names the place."""
    tasks: list[NewTask] = []
    for place, each in enumerate(asked):
        try:
            tasks.append(new_task(each, principal, apart=apart))
        except InvalidTask as error:
            raise InvalidTask(f"tasks[{place}].{error.field}", error.problem) from error
    return tasks


def _one_key(keys: Sequence[str], inside: str | None) -> str:
    key = keys[0]
    if not all(_KEY.fullmatch(each) for each in keys):
        problem = "the header Idempotency-Key must be 1 to 255 printable ASCII characters"
        raise Problem("invalid-task", problem)
    if {key} != {*keys, inside or key}:
        problem = "the header Idempotency-Key and the body give different keys"
        raise Problem("invalid-task", problem, errors=[("/idempotency_key", problem)])
    return key
