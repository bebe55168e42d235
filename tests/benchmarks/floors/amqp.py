"""A raw AMQP 0-9-1 publisher: pre-encoded frames, a window of unconfirmed messages, no library.

What the broker can take at best: persistent messages into a durable classic queue, confirmed.
"""

import socket
import struct
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from benchmarks.bench import Bench
from benchmarks.crew import RunFailed
from benchmarks.measured import Sample
from benchmarks.meter import Meter

_QUEUE: Final = b"bench.raw"
_WINDOW: Final = 1_000
_BURST: Final = 100
_METHOD, _HEADER, _BODY = 1, 2, 3
_END: Final = b"\xce"
_OVERHEAD: Final = 8
_ACK: Final = (60, 80)
_DURABLE: Final = 0b10
# Only the delivery mode is given, and it says persistent.
_PERSISTENT: Final = struct.pack(">HB", 0x1000, 2)


class Channel:
    """One connection, one channel, one queue, confirms on."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port or 5672))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending = b""
        login = f"\0{unquote(parts.username or '')}\0{unquote(parts.password or '')}".encode()
        self._open(login, unquote(parts.path[1:]).encode())
        self.confirmed = 0

    def _open(self, login: bytes, vhost: bytes) -> None:
        self._socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._expect(10, 10)
        answer = struct.pack(">I", 0) + _short(b"PLAIN") + _long(login) + _short(b"en_US")
        self._socket.sendall(_method(0, 10, 11, answer))
        tune = self._expect(10, 30)[:6]
        open_vhost = _method(0, 10, 40, _short(vhost) + b"\0\0")
        self._socket.sendall(_method(0, 10, 31, tune + struct.pack(">H", 0)) + open_vhost)
        self._expect(10, 41)
        self._call((20, 10), b"\0", (20, 11))
        declared = struct.pack(">H", 0) + _short(_QUEUE) + bytes([_DURABLE])
        self._call((50, 10), declared + struct.pack(">I", 0), (50, 11))
        self._call((85, 10), b"\0", (85, 11))

    def _call(self, method: tuple[int, int], given: bytes, answer: tuple[int, int]) -> None:
        self._socket.sendall(_method(1, *method, given))
        self._expect(*answer)

    def publish(self, body: bytes, count: int) -> None:
        """Publish so many messages; all are confirmed when it returns."""
        message = _message(body)
        sent = self.confirmed = 0
        while self.confirmed < count:
            free = min(_WINDOW - (sent - self.confirmed), count - sent)
            if free >= min(_BURST, count - sent) and free:
                self._socket.sendall(message * min(free, _BURST))
                sent += min(free, _BURST)
            else:
                self._hear()

    def _hear(self) -> None:
        for method, given in self._frames():
            if method != _ACK:
                raise RunFailed(f"RabbitMQ answered a publish with {method}")
            tag, multiple = struct.unpack(">QB", given[:9])
            # Confirms of single messages may come out of order; then only their number counts.
            self.confirmed = max(self.confirmed + 1, tag if multiple else 0)

    def _expect(self, kind: int, method: int) -> bytes:
        for found, given in self._frames():
            if found != (kind, method):
                raise RunFailed(f"RabbitMQ answered {found} instead of {(kind, method)}: {given!r}")
            return given
        return self._expect(kind, method)

    def _frames(self) -> Iterator[tuple[tuple[int, int], bytes]]:
        received = self._socket.recv(65_536)
        if not received:
            raise RunFailed("RabbitMQ closed the connection")
        self._pending += received
        while len(self._pending) >= _OVERHEAD:
            size = struct.unpack(">I", self._pending[3:7])[0] + _OVERHEAD
            if len(self._pending) < size:
                return
            frame, self._pending = self._pending[:size], self._pending[size:]
            kind, method = struct.unpack(">HH", frame[7:11])
            yield (kind, method), frame[11:-1]

    def close(self) -> None:
        """Cut the connection: nobody waits for a farewell."""
        self._socket.close()


def publish(bench: Bench, body: bytes, count: int, *, tasks: int) -> Sample:
    """Publish ``count`` messages that stand for so many tasks each."""
    url = bench.servers.vhost()
    with _opened(url) as channel:
        channel.publish(body, _WINDOW)
        meter = Meter(None)
        meter.begin()
        begun, cpu = time.monotonic(), time.process_time()
        channel.publish(body, count)
        seconds, used = time.monotonic() - begun, time.process_time() - cpu
        meter.end()
    sample = meter.sample(count * tasks, seconds)
    sample.cpu["python"] = used
    return sample


@contextmanager
def _opened(url: str) -> Generator[Channel]:
    channel = Channel(url)
    try:
        yield channel
    finally:
        channel.close()


def _message(body: bytes) -> bytes:
    method = _method(1, 60, 40, struct.pack(">H", 0) + _short(b"") + _short(_QUEUE) + b"\0")
    header = struct.pack(">HHQ", 60, 0, len(body)) + _PERSISTENT
    return method + _frame(_HEADER, 1, header) + _frame(_BODY, 1, body)


def _method(channel: int, kind: int, method: int, given: bytes) -> bytes:
    return _frame(_METHOD, channel, struct.pack(">HH", kind, method) + given)


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text
