"""Closing a connection so that its client can read why."""

import asyncio
from collections.abc import Callable
from typing import Any


class Lingering(asyncio.Transport):
    """A transport that does not close under a client that still sends.

    Closing with octets unread makes the system reset the connection, and a client that is busy
    sending then learns of that instead of reading our answer. So what it sends goes on arriving, to
    be thrown away, until the client is done or ``seconds`` have passed.
    """

    def __init__(
        self, transport: asyncio.Transport, is_sent_to: Callable[[], bool], seconds: float
    ) -> None:
        super().__init__()
        self._transport = transport
        self._is_sent_to = is_sent_to
        self._seconds = seconds
        self._closing = False

    def close(self) -> None:
        """Close now, or once the client is done."""
        if self.is_closing():
            return
        self._closing = True
        if not self._is_sent_to():
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(self._seconds, self._transport.close)

    def is_closing(self) -> bool:
        """Whether nothing more is to be written."""
        return self._closing or self._transport.is_closing()

    def write(self, data: Any) -> None:
        """Send, unless it is closing."""
        if not self._closing:
            self._transport.write(data)

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
