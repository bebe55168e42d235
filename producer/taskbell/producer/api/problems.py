"""Problem documents (RFC 9457): one shape for everything that goes wrong."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from taskbell.shared.errors import (
    DatabaseAway,
    IdempotencyConflict,
    InvalidTask,
    QueueFull,
    RateLimited,
    StorageAway,
    Unreadable,
)
from taskbell.shared.guard import NOT_MIGRATED, RETRIED

PROBLEM_JSON: Final = "application/problem+json"
_TYPE: Final = "urn:taskbell:problem:"
_READ_ONLY: Final = "25006"
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_UNKNOWN_FATE: Final = (
    "it may have been done; to submit a task again is safe with the same Idempotency-Key"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem; its name never changes."""

    name: str
    status: int
    title: str

    @property
    def type(self) -> str:
        """The ``type`` of the document."""
        return _TYPE + self.name


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("malformed-request", 400, "The request cannot be read"),
        Kind("invalid-cursor", 400, "This cursor is not one of ours for this list"),
        Kind("unauthenticated", 401, "The credentials are missing or not accepted"),
        Kind("forbidden", 403, "The credentials do not allow this"),
        Kind("not-found", 404, "There is no such thing"),
        Kind("method-not-allowed", 405, "This path does not know the method"),
        Kind("request-timeout", 408, "The request did not arrive in time"),
        Kind("too-late", 409, "The task has ended"),
        Kind("not-failed", 409, "The task has not failed"),
        Kind("not-paused", 409, "The queue is not paused"),
        Kind("erased", 410, "The content's key was erased"),
        Kind("payload-too-large", 413, "The body is too large"),
        Kind("unsupported-media-type", 415, "The body must be application/json"),
        Kind("invalid-task", 422, "The request breaks a rule"),
        Kind("header-too-large", 431, "The head of the request is too large"),
        Kind("idempotency-conflict", 422, "The idempotency key was used for another request"),
        Kind("rate-limited", 429, "Too much in too short a time"),
        Kind("internal", 500, "Something went wrong here"),
        Kind("queue-full", 503, "The queue takes no more for now"),
        Kind("database-away", 503, "The database cannot be asked"),
        Kind("database-read-only", 503, "The database takes no writes for now"),
        Kind("not-migrated", 503, "The database's schema is not the one this version needs"),
        Kind("issuer-away", 503, "The issuer of the tokens cannot be asked"),
        Kind("storage-away", 503, "The object storage cannot be asked"),
        Kind("overloaded", 503, "Too many requests at once"),
    )
}
"""By name."""


class Problem(Exception):
    """Ends a request with a problem document."""

    def __init__(
        self,
        name: str,
        detail: str = "",
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        **members: object,
    ) -> None:
        """``errors``: JSON pointers and what is wrong there; ``members``: further members."""
        super().__init__(f"{name}: {detail}")
        self.kind = KINDS[name]
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = members


def of(error: Exception, *, submitting: bool = False) -> Problem | None:
    """Return the problem an exception stands for; None for one that nobody foresaw.

    ``submitting``: the request may have written something before the database was lost.
    """
    match error:
        case Problem():
            return error
        case InvalidTask():
            return _invalid(error)
        case IdempotencyConflict():
            return Problem("idempotency-conflict", task_id=str(error.task_id))
        case QueueFull():
            return later("queue-full", error.retry_after)
        case RateLimited():
            return later("rate-limited", error.retry_after, limited=error.scope)
        case Unreadable():
            return _unreadable(error)
        case StorageAway():
            return later("storage-away", 5)
        case _:
            return _of_database(error, submitting=submitting)


def _of_database(error: Exception, *, submitting: bool) -> Problem | None:
    if isinstance(error, DatabaseAway):
        if getattr(error.__cause__, "sqlstate", None) == _READ_ONLY:
            return later("database-read-only", 5)
        return later("database-away", 2, _UNKNOWN_FATE if submitting else "")
    if isinstance(error, NOT_MIGRATED):
        return later("not-migrated", 5)
    if isinstance(error, RETRIED):
        return later("database-away", 2)
    return None


def _invalid(error: InvalidTask) -> Problem:
    return Problem("invalid-task", errors=[(pointer(error.field), echoed(error.problem))])


def _unreadable(error: Unreadable) -> Problem:
    if error.reason == "erased":
        return Problem("erased")
    return Problem("internal")  # what is wrong here is for those who operate it, and for the log


def later(name: str, seconds: float, detail: str = "", **members: Any) -> Problem:
    """Make a problem that says when to come back."""
    whole = math.ceil(seconds)
    headers = {"Retry-After": str(whole)}
    return Problem(name, detail, headers=headers, retry_after=whole, **members)


def pointer(path: str) -> str:
    """Turn a path as ``InvalidTask`` writes it (``tasks[7].payload.price``) into a JSON pointer."""
    steps: list[str] = []
    for name, place, quoted in _STEP.findall(path):
        steps.append(json.loads(quoted) if quoted else name or place)
    return pointer_to(steps)


def pointer_to(steps: Sequence[str | int]) -> str:
    """Write a JSON pointer (RFC 6901)."""
    written = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(f"/{echoed(step)}" for step in written)


def echoed(text: str, limit: int = 200) -> str:
    """Return a text of what a client sent so that it can be sent back: bounded, and in UTF-8."""
    text = text if len(text) <= limit else text[:limit] + "…"
    return text.encode("utf-8", "replace").decode()


def response(problem: Problem, request_id: str) -> Response:
    """Write the document."""
    return Response(
        document(problem, request_id),
        problem.kind.status,
        {**problem.headers, "Content-Type": PROBLEM_JSON},
    )


def document(problem: Problem, request_id: str) -> bytes:
    """Write the document's JSON."""
    members: dict[str, object] = {
        "type": problem.kind.type,
        "title": problem.kind.title,
        "status": problem.kind.status,
        "detail": problem.detail or problem.kind.title,
        "instance": f"urn:uuid:{request_id}",
        **problem.members,
    }
    if problem.errors:
        members["errors"] = [{"pointer": at, "detail": what} for at, what in problem.errors]
    return json.dumps(members, ensure_ascii=False).encode()
