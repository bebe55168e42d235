"""Problem documents (RFC 9457): one shape for everything that goes wrong."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

PROBLEM_JSON: Final = "application/problem+json"
_TYPE: Final = "urn:taskbell:problem:"


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
        Kind("idempotency-conflict", 422, "The idempotency key was used for another request"),
        Kind("rate-limited", 429, "Too many tasks in too short a time"),
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


def response(problem: Problem, request_id: str) -> Response:
    """Write the document."""
    document: dict[str, object] = {
        "type": problem.kind.type,
        "title": problem.kind.title,
        "status": problem.kind.status,
        "detail": problem.detail or problem.kind.title,
        "instance": f"urn:uuid:{request_id}",
        **problem.members,
    }
    if problem.errors:
        document["errors"] = [{"pointer": at, "detail": what} for at, what in problem.errors]
    return Response(
        json.dumps(document, ensure_ascii=False),
        problem.kind.status,
        {**problem.headers, "Content-Type": PROBLEM_JSON},
    )
