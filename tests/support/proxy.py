"""A TCP proxy between a client and its server that fails on command, in the ways networks do."""

import asyncio
import socket
import struct
from collections.abc import Coroutine
from enum import Flag, auto
from typing import Self
from urllib.parse import urlsplit

from services.guarded import LOOPBACK, Port


class Direction(Flag):
    """Which way bytes go."""

    TO_SERVER = auto()
    TO_CLIENT = auto()
    BOTH = TO_SERVER | TO_CLIENT


class Proxy:
    """Forwards a loopback port of its own to `host:port`; commands act on every connection.

    With `only`, `silence()` acts on those alone whose clients have sent these bytes: a name, say.
    """

    def __init__(self, host: str, port: int, only: bytes = b"") -> None:
        self._target, self._held, self._only = (host, port), Port(), only
        self._listener: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._cuts: set[asyncio.Event] = set()
        self._changed = asyncio.Condition()
        self._gates = {way: asyncio.Event() for way in (Direction.TO_SERVER, Direction.TO_CLIENT)}
        self._pattern: bytes | None = None
        self.host, self.port = LOOPBACK, self._held.number
        self.delay = 0.0
        """Seconds every chunk waits before it goes on, either way."""
        self.held_back = asyncio.Event()
        """Set once a chunk waits because of `silence()`."""
        self.reply_lost = asyncio.Event()
        """Set once `lose_reply()` has swallowed one."""

    @classmethod
    def before(cls, url: str, only: bytes = b"") -> Self:
        """Make one for the server of this URL."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        return cls(parts.hostname, parts.port, only)

    async def __aenter__(self) -> Self:
        self.resume()
        await self.admit()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        while self._running:
            self.cut()
            await asyncio.wait(self._running, timeout=0.1)
        self._held.release()

    def through(self, url: str) -> str:
        """The URL with our host and port in place of its own."""
        parts = urlsplit(url)
        login, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{login}{at}{self.host}:{self.port}").geturl()

    def cut(self) -> None:
        """Every open connection is reset, on both sides."""
        for cut in self._cuts:
            cut.set()

    def refuse(self) -> None:
        """New connections are refused; those that are open go on."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def admit(self) -> None:
        """New connections are accepted (again)."""
        self._listener = await asyncio.start_server(self._serve, self.host, self.port)

    def silence(self, direction: Direction = Direction.BOTH) -> None:
        """Connections stay and are accepted, but bytes wait for `resume()`: a half-open network."""
        for way in direction:
            self._gates[way].clear()

    def resume(self) -> None:
        """What was held back goes on, in order."""
        for gate in self._gates.values():
            gate.set()

    def lose_reply(self, pattern: bytes) -> None:
        """Once, when a client sends `pattern`: the server gets it, the client only a reset.

        The reset comes when the answer does, so the server has done by then what it was asked.
        """
        self._pattern = pattern

    async def wait_connections(self, count: int) -> None:
        """Returns once exactly that many connections are open."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._cuts) == count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running = asyncio.current_task()
        assert running is not None
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        cut = asyncio.Event()
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _end(writer, reset=True)
            return
        self._cuts.add(cut)
        await self._announce_change()
        losing, meant = asyncio.Event(), asyncio.Event()
        if not self._only:
            meant.set()
        await _first_of(
            self._pump(reader, far_writer, Direction.TO_SERVER, losing, meant),
            self._pump(far_reader, writer, Direction.TO_CLIENT, losing, meant),
            cut.wait(),
        )
        for end in (writer, far_writer):
            _end(end, reset=cut.is_set() or losing.is_set())
        self._cuts.discard(cut)
        await self._announce_change()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Direction,
        losing: asyncio.Event,
        meant: asyncio.Event,
    ) -> None:
        tail = b""  # The pattern may come in two chunks.
        while chunk := await reader.read(65536):
            if way is Direction.TO_CLIENT and losing.is_set():
                self.reply_lost.set()
                return
            await asyncio.sleep(self.delay)
            if way is Direction.TO_SERVER and self._only and self._only in chunk:
                meant.set()
            if meant.is_set() and not self._gates[way].is_set():
                self.held_back.set()
                await self._gates[way].wait()
            if way is Direction.TO_SERVER and self._pattern is not None:
                tail += chunk
                if self._pattern in tail:
                    self._pattern = None
                    losing.set()
                else:
                    tail = tail[-len(self._pattern) :]
            writer.write(chunk)
            await writer.drain()

    async def _announce_change(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _first_of(*endings: Coroutine[None, None, object]) -> None:
    """Returns when the first of them has ended, however; the others are cancelled."""
    running = [asyncio.ensure_future(ending) for ending in endings]
    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    for other in running:
        other.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _end(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        # Closing with a linger of zero seconds is what sends RST.
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    writer.close()
