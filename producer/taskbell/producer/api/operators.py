"""The JSON of cancelling, redriving, queues and workers, as it is documented and written."""

import json
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import ConfigDict, Field
from starlette.responses import Response

from taskbell.producer.api.answers import Answer
from taskbell.producer.api.example import AT, ID
from taskbell.producer.api.rendering import in_utc


class Cancelling(Answer):
    """What became of a request to cancel."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"task_id": ID, "answer": "requested"}]}
    )
    task_id: UUID
    answer: Literal["cancelled", "requested"]


class Redriven(Answer):
    """A task that waits again."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"task_id": ID, "status": "PENDING"}]}
    )
    task_id: UUID
    status: Literal["PENDING"]


class Queue(Answer):
    """What was decided about a queue, and what was last measured; ages in seconds."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "queue": "mail", "paused": False, "paused_until": None, "on_dead": "continue",
                    "depth": 3, "oldest_age": 0.4, "drain_rate": 12.5, "measured_at": AT,
                    "running": 2, "held": 0, "max_depth": None,
                }
            ]
        }
    )  # fmt: skip
    queue: str
    paused: bool
    paused_until: datetime | None
    on_dead: str
    depth: int | None
    oldest_age: float | None
    drain_rate: float | None
    measured_at: datetime | None
    running: int
    held: int
    max_depth: int | None


class Queues(Answer):
    """By name."""

    queues: list[Queue]


class Paused(Answer):
    """A queue of which nothing is claimed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queue": "mail", "paused": True, "paused_until": None}]}
    )
    queue: str
    paused: bool
    paused_until: datetime | None
    """When it goes on by itself; null: once it is resumed."""


class Resumed(Answer):
    """A queue that goes on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"queue": "mail", "paused": False}]})
    queue: str
    paused: Literal[False]


class Worker(Answer):
    """A process that said it is there; nothing is decided from it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "worker_id": "consumer@host/17/3fa9", "role": "consumer", "host": "host",
                    "pid": 17, "started_at": AT, "seen_at": AT, "running": 2, "slots": 20,
                    "queues": ["mail"], "unseen": 1.5,
                }
            ]
        }
    )  # fmt: skip
    worker_id: str
    role: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    running: int
    slots: int
    queues: list[str]
    unseen: float
    """Seconds since it was last seen."""


class Workers(Answer):
    """By role and name, 1 000 at most."""

    workers: list[Worker]


class Ready(Answer):
    """This process can serve."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"ready": True, "missing": [], "degraded": []},
                {
                    "ready": True, "missing": [],
                    "degraded": ["storage: it could not be reached the last time"],
                },
            ]
        }
    )  # fmt: skip
    ready: Literal[True]
    missing: list[str]
    degraded: Annotated[
        list[str],
        Field(
            description="What does not work at the moment, while the rest does: `writes: …`, "
            "`tokens: …`, `storage: …`. Of the last two it is how their last use ended; nobody is "
            "asked for it."
        ),
    ]


class Alive(Answer):
    """This process runs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"alive": True}]})
    alive: Literal[True]


def answer(document: dict[str, object], status: int = 200) -> Response:
    """Write JSON; instants in UTC."""
    text = json.dumps(document, ensure_ascii=False, default=_plain)
    return Response(text, status, media_type="application/json")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return in_utc(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON")
