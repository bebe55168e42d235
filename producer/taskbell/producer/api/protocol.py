"""uvicorn's HTTP protocol with bounds for heads, trailers and clients that do not read.

uvicorn bounds neither how large a head may grow nor how long it may take to arrive, takes what
follows a body for headers, and closes a connection while its client still sends, so that the client
may never read why.
"""

import asyncio
from typing import Any, Final
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskbell.producer.api import problems
from taskbell.producer.api.lingering import Lingering
from taskbell.producer.api.problems import Problem

WHOLE: Final = "taskbell.whole"
"""In the scope of a request: true once all of its body has arrived."""

_PAUSE_SECONDS: Final = 60.0
"""How long an answer may wait for a client that does not read it."""

_LINGER_SECONDS: Final = 5.0
"""How long a client that was refused may go on sending; what it sends is thrown away."""


def protocol(head_bytes: int, head_seconds: float) -> type[asyncio.Protocol]:
    """Return the protocol with these bounds."""

    class Bounded(_BoundedProtocol):
        most_bytes = head_bytes
        most_seconds = head_seconds

    return Bounded


class _BoundedProtocol(HttpToolsProtocol):
    most_bytes: int
    most_seconds: float

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._moved = False
        self._waiting = 0  # bytes since a head was complete, a body went on or a request ended
        self._head = 0  # bytes of what the parser made of it
        self._refused = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._pause_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(
            Lingering(transport, self.is_sent_to, _LINGER_SECONDS, _PAUSE_SECONDS)
        )
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._lingering().lost()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        self._lingering().end_in_time()  # for the loop closes it now, without asking
        super().eof_received()

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        if self._in_head:
            self._start_head_timer()
        self._moved = False
        super().data_received(data)
        # What began in the middle of what came is counted from the next time on. Trailers and the
        # extensions of chunks are counted like heads: no bound of a body ever meets them.
        self._waiting = 0 if self._moved else self._waiting + len(data)
        if self._waiting > self.most_bytes:
            self._refuse("header-too-large")

    def _lingering(self) -> Lingering:
        transport: Any = self.transport  # uvicorn's type knows nothing of ours
        lingering: Lingering = transport
        return lingering

    def is_sent_to(self) -> bool:
        """Whether the client is in the middle of a request."""
        return self._refused or not self._in_head

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: nobody may add to the head what was not looked at with it
        self._head += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size, self._head = self._head, 0
        self._moved = True
        self._stop_head_timer()
        if size > self.most_bytes:
            self._refuse("header-too-large")
        self._in_head = False
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved = True
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            scope: Any = self.scope  # uvicorn's type knows nothing of ours
            scope[WHOLE] = True
            super().on_message_complete()
        self._in_head = self._moved = True

    def send_400_response(self, msg: str) -> None:
        del msg  # in our shape, not in uvicorn's
        self._refuse("malformed-request")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._pause_timer = self.loop.call_later(_PAUSE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(
                self.most_seconds, self._refuse, "request-timeout"
            )

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_timers(self) -> None:
        self._stop_head_timer()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None

    def _refuse(self, name: str) -> None:
        """Answer without the application, which never learns of this request, and close."""
        self._stop_head_timer()
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        cycle: Any = self.cycle  # none before the first request
        if cycle is not None and not cycle.response_complete:
            if self._in_head:  # the client would take this for the answer to what it sent before
                cycle.keep_alive = False
                return
            if cycle.response_started or self.pipeline:
                self.transport.abort()  # nothing can follow half an answer, nor come before one
                return
        problem = Problem(name)
        kind = problem.kind
        document = problems.document(problem, str(uuid4()))
        head = (
            f"HTTP/1.1 {kind.status} {kind.title}\r\nContent-Type: {problems.PROBLEM_JSON}\r\n"
            f"Content-Length: {len(document)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + document)
        self.transport.close()
