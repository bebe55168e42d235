"""One service for several processes: whoever owns it starts it when the first of them asks.

The test run's controller is the owner and its workers borrow over a Unix socket, so there is one
server per run however many workers there are, and none in a run whose tests need none.
"""

import secrets
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Client, Listener

from services.guarded import ServiceError, make_directory

Description = dict[str, str]
"""What a borrower needs to know; plain text, as it crosses to another process."""


class Lender:
    """Owns at most one service, opened at the first request."""

    def __init__(self, open_service: Callable[[], tuple[Description, Callable[[], None]]]) -> None:
        """`open_service` answers what borrowers need to know, and how to close the service."""
        self._open = open_service
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lender")
        self._lock = threading.Lock()
        self._opened: Future[tuple[Description, Callable[[], None]]] | None = None
        self._counter: _Counter | None = None

    def describe(self) -> Description:
        """Opens the service unless it was, and describes it; if that failed, raises why again."""
        return self._opening().result()[0]

    def address(self) -> str:
        """Where other processes `borrow()`; contains the key that lets them."""
        if self._counter is None:
            self._counter = _Counter(self._answer)
        return self._counter.address

    def close(self) -> None:
        """The service is closed, if it was ever opened, and nobody can borrow any more."""
        if self._counter is not None:
            self._counter.close()
            self._counter = None
        if self._opened is not None and self._opened.exception() is None:
            self._opened.result()[1]()
        self._opened = None
        self._pool.shutdown()

    def _opening(self) -> Future[tuple[Description, Callable[[], None]]]:
        with self._lock:
            if self._opened is None:
                self._opened = self._pool.submit(self._open)
            return self._opened

    def _answer(self) -> Description | str:
        # Whatever went wrong is for the borrower to say, in whose test it shows.
        error = self._opening().exception()
        return self.describe() if error is None else f"{type(error).__name__}: {error}"


class _Counter:
    """Where borrowers ask: a Unix socket in a private directory, and a thread that serves it."""

    def __init__(self, answer: Callable[[], Description | str]) -> None:
        self._answer = answer
        self._directory = make_directory("lending")
        self._key = secrets.token_hex(16)
        self._listener = Listener(
            str(self._directory / "socket"), family="AF_UNIX", authkey=self._key.encode()
        )
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    @property
    def address(self) -> str:
        return f"{self._key}@{self._directory / 'socket'}"

    def _serve(self) -> None:
        asked = ""
        while asked != "close":
            try:
                with self._listener.accept() as connection:
                    asked = connection.recv()
                    connection.send(self._answer() if asked == "describe" else {})
            except (OSError, EOFError):
                continue  # A borrower that was killed while it asked; the others still want one.

    def close(self) -> None:
        _ask(self.address, "close")
        self._serving.join()
        self._listener.close()
        shutil.rmtree(self._directory)


def borrow(address: str) -> Description:
    """The description of a lender's service, which is opened for it. Raises ServiceError."""
    answer = _ask(address, "describe")
    if isinstance(answer, str):
        raise ServiceError(answer)
    return answer


def _ask(address: str, question: str) -> Description | str:
    key, _, path = address.partition("@")
    with Client(path, family="AF_UNIX", authkey=key.encode()) as connection:
        connection.send(question)
        answer: Description | str = connection.recv()
        return answer
