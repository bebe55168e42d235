"""The ladder down: stop claiming, let handlers finish, release the rest; asked again: now."""

import asyncio
import signal
from collections.abc import Callable


class Shutdown:
    """What SIGTERM and SIGINT ask for; may also be asked for by code."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        """Stop in good order."""
        self.at_once = asyncio.Event()
        """Interrupt handlers now, and wait a second at most for their leases to be given back."""
        self._on_asked: list[Callable[[], None]] = []

    def listen(self) -> None:
        """Ask at the first SIGTERM or SIGINT, insist at the second."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask)

    def ask(self) -> None:
        """Ask to stop; asked again: at once."""
        if self.asked.is_set():
            self.at_once.set()
        self.asked.set()
        for wake in self._on_asked:
            wake()

    def when_asked(self, wake: Callable[[], None]) -> None:
        """Call this, too, when asked to stop."""
        self._on_asked.append(wake)
