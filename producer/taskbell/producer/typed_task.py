"""Tasks as pydantic models: the payload is checked where it is written and where it is read."""

from typing import Any, ClassVar, Unpack

from pydantic import BaseModel, ConfigDict

from taskbell.producer.rules import require_queue, require_type, require_whole
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    MAX_ATTEMPTS,
    PRIORITIES,
)


class TypedTask(BaseModel):
    """The payload of one type of task; subclasses name the type and may set its defaults.

    ::

        class SendReceipt(TypedTask, type="send_receipt", queue="mail", max_attempts=8, priority=7):
            order_id: int

    The payload is ``model_dump(mode="json", by_alias=True)`` and is read back by
    ``model_validate``. A subclass of a subclass names a type of its own and inherits the other
    defaults. A subclass without a type is a ``TypeError``, one with an unusable name or number an
    ``InvalidTask``, both when the class is created. pydantic's own class keywords work as ever.

    What the class stands for is in four class attributes. Their names cannot collide with fields
    of the payload: pydantic allows no field that begins with an underscore.
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")
    """Non-finite numbers reach our check and are refused; pydantic would turn some into null."""

    __task_type__: ClassVar[str]
    __task_queue__: ClassVar[str] = DEFAULT_QUEUE
    __task_priority__: ClassVar[int] = DEFAULT_PRIORITY
    __task_max_attempts__: ClassVar[int] = DEFAULT_MAX_ATTEMPTS

    def __init_subclass__(
        cls,
        *,
        type: str,  # noqa: A002 - the word for it, and what users read in the class line
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        **config: Unpack[ConfigDict],
    ) -> None:
        super().__init_subclass__(**config)
        cls.__task_type__ = require_type("type", type)
        if queue is not None:
            cls.__task_queue__ = require_queue("queue", queue)
        if priority is not None:
            cls.__task_priority__ = require_whole("priority", priority, PRIORITIES)
        if max_attempts is not None:
            cls.__task_max_attempts__ = require_whole("max_attempts", max_attempts, MAX_ATTEMPTS)


def payload_of(task: TypedTask) -> dict[str, Any]:
    """Return the payload of a typed task as JSON values."""
    try:
        return task.model_dump(mode="json", by_alias=True)
    except ValueError as error:  # pydantic's, or a UnicodeDecodeError out of it
        # Only the kind of error is repeated: its text may quote the payload.
        problem = f"{type(task).__name__} cannot be written as JSON ({type(error).__name__})"
        raise InvalidTask("payload", problem) from error
