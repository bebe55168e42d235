"""What a body may hold; the schema says exactly what is accepted, so a name must be ASCII.

``null`` stands for a field that is not given, as many clients write it.
"""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictFloat, StrictInt

from taskbell.shared import limits

PRINTABLE: Final = r"^[ -~]{1,200}$"
NO_NUL: Final = r"^[^\x00]*$"
UUID: Final = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"


def _not_both(**fields: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema's way to say it."""
    return {"not": {"properties": fields, "required": list(fields)}}


_CHOICES: Final[dict[str, Any]] = {
    "allOf": [
        _not_both(delay={"type": "number"}, scheduled_at={"type": "string"}),
        _not_both(payload={"not": {"type": "null"}}, payload_location={"type": "string"}),
    ]
}

MOST_TASKS: Final = 1000
"""Most tasks in one batch."""


def _whole(value: object) -> object:
    # In JSON 5 and 5.0 are the same number; true is none.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _instant(value: object) -> object:
    if not isinstance(value, str) or "T" not in value.upper():
        raise ValueError("must be an instant as RFC 3339 writes it: 2030-01-31T12:00:00Z")
    return value


Name = Annotated[str, Field(strict=True, pattern=PRINTABLE)]
Text = Annotated[str, Field(strict=True, min_length=1, pattern=NO_NUL)]
Priority = Annotated[StrictInt, Field(ge=0, le=9), BeforeValidator(_whole)]
Tries = Annotated[StrictInt, Field(ge=1, le=1000), BeforeValidator(_whole)]


class Body(BaseModel):
    """A body; fields that are unknown are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskBody(Body):
    """A task to be created."""

    model_config = ConfigDict(json_schema_extra=_CHOICES)

    type: Annotated[Name, Field(description="Picks the handler.", examples=["send_receipt"])]
    payload: Annotated[
        Any,
        Field(
            description="Any JSON of at most 1 MiB and 100 levels; integers of 64 bits.",
            examples=[{"order": 17}],
        ),
    ] = None
    payload_location: Annotated[
        Text | None,
        Field(
            max_length=1000,
            description="Instead: an object the client put into the storage, as"
            " `client/<first 24 hex digits of its owner's SHA-256>/…#sha256=…&size=…`.",
        ),
    ] = None
    queue: Annotated[
        Name | None,
        Field(
            description="The lane it waits in; none is `default`.",
            examples=["mails"],
            json_schema_extra={
                "pattern": f"^{limits.QUEUE_CHARACTERS.pattern}$",
                "not": {"type": "string", "pattern": r"^amq\."},
            },
        ),
    ] = None  # fmt: skip
    priority: Annotated[Priority | None, Field(description="9 is served first; none is 5.")] = None
    max_attempts: Annotated[
        Tries | None, Field(description="Tries before it fails; none is 5.")
    ] = None
    partition_key: Annotated[
        Text | None,
        Field(max_length=120, description="Your tasks that share it run one at a time, in order."),
    ] = None
    correlation_id: Annotated[
        Name | None, Field(description="Your own name for what this belongs to.")
    ] = None
    idempotency_key: Annotated[
        Text | None,
        Field(max_length=255, description="The same key gives the same task; or by the header."),
    ] = None
    delay: Annotated[
        StrictFloat | None,
        Field(ge=0, le=limits.DELAY_SECONDS, description="Seconds from now; or `scheduled_at`."),
    ] = None
    scheduled_at: Annotated[
        datetime | None,
        BeforeValidator(lambda value: value if value is None else _instant(value)),
        Field(description="Not before this instant, with a time zone, within ten years."),
    ] = None


class BatchBody(Body):
    """Tasks to be created together, or none of them."""

    tasks: Annotated[list[TaskBody], Field(min_length=1, max_length=MOST_TASKS)]
