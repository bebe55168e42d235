"""The outermost layer: names each request, bounds how many there are, answers what was raised.

Here alone is anything caught broadly: whatever a route raises becomes a problem document.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from traceback import extract_tb
from typing import ClassVar, Final
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskbell.producer.api import problems
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.troubles import Troubles
from taskbell.shared.errors import Unreadable
from taskbell.shared.events import Event, Level, Observer

_VISIT: Final = "taskbell.visit"
_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_CLOSE: Final = (b"connection", b"close")
# Whoever watches over this process must get an answer especially when there is much to do.
_ALWAYS: Final = frozenset({"/livez", "/readyz"})
_GONE: Final = 499
_PIECE_BYTES: Final = 64 * 1024
_BROKEN: Final = 500


@dataclass(frozen=True, slots=True)
class RequestServed(Event):
    """A request was answered; ``route`` is the template, empty where there is none.

    ``status`` is 499 if the client went away first. ``principal`` is the prefix of a key or the
    subject of a token; ``problem`` the name of the problem it was answered with, if any.
    """

    level: ClassVar[Level] = Level.DEBUG
    route: str
    method: str
    status: int
    seconds: float
    principal: str
    request_id: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RequestFailed(Event):
    """A request ended in an error that is ours; its text may hold data, so it is not told."""

    level: ClassVar[Level] = Level.ERROR
    route: str
    method: str
    request_id: str
    error_class: str
    where: str
    """File and line of the innermost frame."""
    reason: str = ""
    """Why content cannot be read, if it cannot: key unknown, changed, missing."""


@dataclass(slots=True)
class Traffic:
    """How many requests there are now; who stays is not counted once that is known."""

    in_flight: int = 0


@dataclass(slots=True)
class Visit:
    """What is known of a request while it is served."""

    traffic: Traffic

    request_id: str = field(default_factory=lambda: str(uuid4()))
    route: str = ""
    principal: str = ""
    status: int = 0
    problem: str = ""
    body_read: bool = False
    """Whether the whole body arrived; if not, the connection cannot be used again."""
    counted: bool = False
    held: ExitStack = field(default_factory=ExitStack)
    """What is given back once the request has its answer, or has ended without one."""

    def enter(self) -> None:
        """Take a place among the requests in flight."""
        self.counted = True
        self.traffic.in_flight += 1

    def leave(self) -> None:
        """Give the place back, if it was not."""
        if self.counted:
            self.counted = False
            self.traffic.in_flight -= 1


def visit_of(request: Request) -> Visit:
    """Return what is known of this request."""
    visit: Visit = request.scope[_VISIT]
    return visit


class Front:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, *, observe: Observer, traffic: Traffic, most: int) -> None:
        self._app = app
        self._observe = observe
        self._traffic = traffic
        self._most = most
        self._troubles = Troubles(observe)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        began = perf_counter()
        visit = scope[_VISIT] = Visit(self._traffic)
        answer = _Answer(visit, send, has_body=_has_body(scope))
        try:
            self._enter(visit, scope["path"])
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            visit.status = _GONE
        except Exception as error:  # noqa: BLE001 - the one place: nothing may escape unshaped
            await self._turn_into_problem(error, scope, receive, answer)
        finally:
            visit.leave()
            visit.held.close()
            served = RequestServed(
                visit.route, scope["method"], visit.status, perf_counter() - began,
                visit.principal, visit.request_id, visit.problem,
            )  # fmt: skip
            self._observe(served)

    def _enter(self, visit: Visit, path: str) -> None:
        if path in _ALWAYS:
            return
        if self._traffic.in_flight >= self._most:
            raise Problem("overloaded", headers={"Retry-After": "1"})
        visit.enter()

    async def _turn_into_problem(
        self, error: Exception, scope: Scope, receive: Receive, answer: "_Answer"
    ) -> None:
        visit: Visit = scope[_VISIT]
        problem = problems.of(error, submitting=scope["method"] == "POST")
        problem = problem or Problem("internal")
        if problem.kind.status == _BROKEN:
            reason = error.reason if isinstance(error, Unreadable) else ""
            failed = RequestFailed(
                visit.route, scope["method"], visit.request_id, type(error).__name__,
                _where(error), reason,
            )  # fmt: skip
            self._observe(failed)
        visit.problem = problem.kind.name
        self._troubles.met(problem.kind.name, error)
        if not visit.status:  # nothing was sent yet
            await problems.response(problem, visit.request_id)(scope, receive, answer)


class _Answer:
    """Sends, with the headers that every answer has."""

    def __init__(self, visit: Visit, send: Send, *, has_body: bool) -> None:
        self._visit = visit
        self._send = send
        self._has_body = has_body

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            visit = self._visit
            visit.status = message["status"]
            headers = [*message["headers"], *_HEADERS]
            headers.append((b"x-request-id", visit.request_id.encode()))
            if self._has_body and not visit.body_read:
                headers.append(_CLOSE)
            message["headers"] = headers
            if (b"content-type", b"text/event-stream; charset=utf-8") in headers:
                visit.leave()
        elif len(body := message.get("body", b"")) > _PIECE_BYTES:
            await self._send_in_pieces(body, more=message.get("more_body", False))
            return
        await self._send(message)

    async def _send_in_pieces(self, body: bytes, *, more: bool) -> None:
        """Send each once the one before it is on its way.

        Handed over at once, nobody could tell a reader who is slow from one who does not read.
        """
        view = memoryview(body)
        for start in range(0, len(view), _PIECE_BYTES):
            piece = bytes(view[start : start + _PIECE_BYTES])
            more_body = more or start + _PIECE_BYTES < len(view)
            await self._send({"type": "http.response.body", "body": piece, "more_body": more_body})


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _where(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
