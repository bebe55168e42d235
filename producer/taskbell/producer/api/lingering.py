"""A connection as its client likes it: an answer comes whole, and before the end."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

_HELD_BYTES: Final = 4096
"""What is larger is sent at once."""


class Lingering(asyncio.Transport):
    """A transport that does not close under a client that still sends.

    Closing with octets unread makes the system reset the connection, and a client that is busy
    sending then learns of that instead of reading our answer. So what it sends goes on arriving, to
    be thrown away, until the client is done or ``seconds`` have passed. What it has not read
    ``patience`` seconds later is given up: the loop would wait for that for ever.

    A small piece is held until the next one or until the loop has nothing else to do, so that the
    head of an answer and its body are sent together.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        is_sent_to: Callable[[], bool],
        seconds: float,
        patience: float,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._is_sent_to = is_sent_to
        self._seconds = seconds
        self._patience = patience
        self._closing = False
        self._held = b""

    def close(self) -> None:
        """Close now, or once the client is done."""
        if self.is_closing():
            return
        self._send_held()
        self._closing = True
        if not self._is_sent_to():
            self._end()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._transport.close()
        self.end_in_time()

    def end_in_time(self) -> None:
        """Abort in a while, if what was sent is not on its way by now."""
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(self._patience, self._transport.abort)

    def lost(self) -> None:
        """Send no more: uvloop raises where there is no connection, and nobody would catch it."""
        self._closing = True
        self._held = b""

    def is_closing(self) -> bool:
        """Whether nothing more is to be written."""
        return self._closing or self._transport.is_closing()

    def write(self, data: Any) -> None:
        """Send, unless it is closing."""
        if self._closing:
            return
        if self._held:
            data, self._held = self._held + data, b""
        elif len(data) <= _HELD_BYTES:
            self._held = data
            asyncio.get_running_loop().call_soon(self._send_held)
            return
        self._transport.write(data)

    def _send_held(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._transport.write(held)

    def abort(self) -> None:
        """Close at once, whatever is lost."""
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Tell what the transport knows."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Let the client wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take what it sends again."""
        self._transport.resume_reading()
