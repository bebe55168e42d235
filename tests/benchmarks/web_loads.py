"""A client of HTTP in a process of its own: raw HTTP/1.1 over kept connections.

``python -m benchmarks.web_loads PORT KIND SECONDS RATE LEAST`` says "ready", waits for a line, does
its work and says what it did as JSON. With a rate of 0 every connection asks again as soon as it is
answered, for so long and until there were so many; with another, requests are due by the clock and
a late answer makes the latency longer, not the load smaller. A client library would cost more than
the server.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Final, cast

from taskbell.shared.loop import new_loop

CONNECTIONS: Final = 16
"""How many requests are under way at most."""

# As every benchmark's, without loading a consumer for it.
_PAYLOAD: Final = {"sent": None, "padding": "x" * 64}
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ID: Final = re.compile(rb'"task_id": ?"([0-9a-f-]{36})"')
_GOOD: Final = (b"200", b"201")


class Refused(Exception):
    """The server answered something else than what is measured."""


class Visitor(asyncio.Protocol):
    """One kept connection: one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to write."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by birth

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request; the answer is its body."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        """Take what arrived; an answer may come in pieces."""
        self._received += data
        end = self._received.find(_HEAD_END)
        if end < 0 or self._answer is None:
            return
        head = self._received[:end]
        length = _LENGTH.search(head)
        size = end + len(_HEAD_END) + (int(length[1]) if length else 0)
        if len(self._received) < size:
            return
        body, self._received = self._received[end + len(_HEAD_END) : size], self._received[size:]
        if head[9:12] in _GOOD:
            self._answer.set_result(body)
        else:
            self._answer.set_exception(Refused(head[:200].decode() + body[:500].decode()))

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody answers any more."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Refused(f"the connection broke: {exc}"))

    def leave(self) -> None:
        """Close the connection."""
        self._transport.close()


class Load:
    """What one invocation asks for, over and over."""

    def __init__(self, port: int, kind: str, key: str, directory: Path) -> None:
        self._port = port
        self._known = directory / "task-ids"
        host = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\nAccept: */*\r\n"
        self._requests = self._posts(host) if kind == "post" else self._gets(host)
        self._born: list[bytes] = []
        self.latencies: list[float] = []

    def _posts(self, host: str) -> Iterator[bytes]:
        for number in cycle(range(1_000_000)):
            asked = {"type": "noop", "queue": "bench", "payload": {"number": number, **_PAYLOAD}}
            body = json.dumps(asked, separators=(",", ":"))
            yield (
                f"POST /tasks HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode()

    def _gets(self, host: str) -> Iterator[bytes]:
        known = self._known.read_text("ascii").split()
        for task_id in cycle(known):
            yield f"GET /tasks/{task_id} HTTP/1.1\r\n{host}\r\n".encode()

    async def run(self, seconds: float, rate: float, least: int) -> float:
        """Ask for so long, and ``least`` times; returns the seconds until the last answer."""
        loop = asyncio.get_running_loop()
        visitors = [
            (await loop.create_connection(Visitor, "127.0.0.1", self._port))[1]
            for _ in range(CONNECTIONS)
        ]
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as together:
            for place, visitor in enumerate(visitors):
                visits = (
                    self._due(place, begun, seconds, rate)
                    if rate
                    else self._at_once(begun + seconds, least)
                )
                together.create_task(self._visit(visitor, visits))
        took = time.perf_counter() - begun
        for visitor in visitors:
            visitor.leave()
        self._known.write_text(b"\n".join(self._born).decode(), "ascii") if self._born else None
        return took

    @staticmethod
    def _due(place: int, begun: float, seconds: float, rate: float) -> Iterator[float]:
        number = place
        while number / rate < seconds:
            yield begun + number / rate
            number += CONNECTIONS

    def _at_once(self, until: float, least: int) -> Iterator[float]:
        while (now := time.perf_counter()) < until or len(self.latencies) < least:
            yield now

    async def _visit(self, visitor: Visitor, visits: Iterator[float]) -> None:
        for due in visits:
            early = due - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            answer = await visitor.ask(next(self._requests))
            self.latencies.append(time.perf_counter() - due)
            if born := _ID.search(answer):
                self._born.append(born[1])


def main() -> None:
    """Be one client."""
    port, kind, seconds, rate, least = sys.argv[1:]
    load = Load(int(port), kind, os.environ["BENCH_KEY"], Path(os.environ["BENCH_RUN"]))
    say: Callable[[str], int] = sys.stdout.write
    say("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    cpu = time.process_time()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        took = runner.run(load.run(float(seconds), float(rate), int(least)))
    answer = {
        "requests": len(load.latencies),
        "seconds": took,
        "cpu": time.process_time() - cpu,
        "latencies": load.latencies,
    }
    say(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
