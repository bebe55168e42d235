"""The JSON of dead letters: answers as they are documented, and the body of redriving many."""

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import ConfigDict, Field, StrictFloat, model_validator

from taskbell.producer.api import bodies
from taskbell.producer.api.answers import Answer
from taskbell.producer.api.bodies import Body, Name
from taskbell.producer.api.example import AT, ID
from taskbell.producer.api.line import key_of
from taskbell.shared import dead_letters

Id = Annotated[str, Field(strict=True, pattern=bodies.UUID, json_schema_extra={"format": "uuid"})]


def _given(name: str, kind: str) -> dict[str, Any]:
    """JSON Schema's way to say that a field is there and not null."""
    return {"required": [name], "properties": {name: {"type": kind}}}


class Letter(Answer):
    """The diagnosis of a task that failed for good."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "task_id": ID, "failed_at": AT, "attempts": 5, "owner_id": "acme",
                    "queue": "mail", "type": "send_receipt", "partition_key": None,
                    "error_class": "smtplib.SMTPServerDisconnected",
                    "cause": "9f86d081884c7d65", "error": "connection closed",
                }
            ]
        }
    )  # fmt: skip
    task_id: UUID
    failed_at: datetime
    attempts: int
    """How often it was claimed."""
    owner_id: str
    queue: str
    type: str
    partition_key: str | None
    error_class: str | None
    cause: str | None
    """Equal for failures of one kind."""
    error: str | None


class Letters(Answer):
    """A page, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dead_letters": [], "next": None}]})
    dead_letters: list[Letter]
    next: str | None
    """The cursor of the next page."""


class FailedAttempt(Answer):
    """One attempt that failed."""

    attempt: int
    failed_at: datetime
    outcome: str
    error_class: str | None
    error: str | None
    worker_id: str | None
    """Only for those who may operate."""
    traceback: str | None
    """Only for those who may operate."""


class Inspected(Letter):
    """A dead letter and what went before it, the first failure first."""

    history: list[FailedAttempt]


class Cause(Answer):
    """Dead letters that failed in one way; what names an example is of the newest."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "cause": "9f86d081884c7d65", "dead_letters": 12, "first_failed_at": AT,
                    "last_failed_at": AT, "example": ID, "type": "send_receipt",
                    "queue": "mail", "error_class": "builtins.TimeoutError", "error": "timed out",
                }
            ]
        }
    )  # fmt: skip
    cause: str | None
    dead_letters: int
    first_failed_at: datetime
    last_failed_at: datetime
    example: UUID | None
    type: str | None
    queue: str | None
    error_class: str | None
    error: str | None


class Causes(Answer):
    """The most frequent first."""

    causes: list[Cause]


class RedriveMany(Body):
    """Which dead letters to redrive: some by name, or all that match."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"cause": "9f86d081884c7d65", "rate": 10}, {"task_ids": [ID]}],
            "oneOf": [
                _given("task_ids", "array"),
                {"anyOf": [_given(name, "string") for name in ("cause", "queue", "type")]},
            ],
        },
    )
    task_ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    cause: Name | None = None
    queue: Name | None = None
    type: Name | None = None
    rate: Annotated[
        StrictFloat | None,
        Field(ge=0.001, le=1_000_000, description="So many a second become due; none: at once."),
    ] = None

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        matching = {self.cause, self.queue, self.type} != {None}
        if matching == (self.task_ids is not None):
            raise ValueError("give either task_ids, or some of cause, queue and type")
        return self


class RedrivenMany(Answer):
    """How many wait again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"redriven": 12, "more": False}]})
    redriven: int
    more: bool
    """Whether there may be more: a call redrives 10 000 at most. Repeat it."""


def shown_letter(letter: dead_letters.DeadLetter, error: str | None) -> dict[str, Any]:
    """Write a ``Letter``; ``error``: its text, opened."""
    return {
        "task_id": letter.task_id,
        "failed_at": letter.failed_at,
        "attempts": letter.attempt_count,
        "owner_id": letter.owner_id,
        "queue": letter.queue,
        "type": letter.type,
        "partition_key": key_of(letter.owner_id, letter.partition_key),
        "error_class": letter.error_class,
        "cause": letter.fingerprint,
        "error": error,
    }


def shown_cause(cause: dead_letters.Cause, error: str | None) -> dict[str, Any]:
    """Write a ``Cause``."""
    return {
        "cause": cause.fingerprint,
        "dead_letters": cause.dead_letters,
        "first_failed_at": cause.first_failed_at,
        "last_failed_at": cause.last_failed_at,
        "example": cause.example,
        "type": cause.type,
        "queue": cause.queue,
        "error_class": cause.error_class,
        "error": error,
    }


def shown_attempt(
    attempt: dead_letters.FailedAttempt,
    error: str | None,
    traceback: str | None,
    *,
    inside: bool,
) -> dict[str, Any]:
    """Write a ``FailedAttempt``; ``inside``: whether the caller may see how things are run."""
    return {
        "attempt": attempt.attempt,
        "failed_at": attempt.failed_at,
        "outcome": attempt.outcome,
        "error_class": attempt.error_class,
        "error": error,
        "worker_id": attempt.worker_id if inside else None,
        "traceback": traceback if inside else None,
    }
