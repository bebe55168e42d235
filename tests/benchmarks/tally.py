"""What ran, counted inside the worker in the same way for every system: standard library only.

A program of a peer loads it by path. Each process keeps one file in the directory of ``BENCH_RUN``:
written at the first task, ten times a second while there is news, and at the end.
"""

import atexit
import json
import os
import threading
import time
from functools import cache
from pathlib import Path

_EVERY_SECONDS = 0.1


class Tally:
    """Counts the tasks of this process; ``record`` costs well below a microsecond."""

    def __init__(self, directory: str) -> None:
        self.count = 0
        self.total = 0
        self.first = 0.0
        self.last = 0.0
        self.cpu_at_first = 0.0
        self.delays: list[float] = []
        self._path = Path(directory) / f"tally-{os.getpid()}.json"
        self._written = 0
        self._lock = threading.Lock()

    def record(self, number: int, sent: float | None = None) -> None:
        """Count a task that starts now; ``sent`` is the monotonic instant it was asked for."""
        now = time.monotonic()
        with self._lock:
            if not self.count:
                self._begin(now)
            self.count += 1
            self.total += number
            self.last = now
            if sent is not None:
                self.delays.append(now - sent)

    def _begin(self, now: float) -> None:
        self.first = now
        self.cpu_at_first = time.process_time()
        threading.Thread(target=self._keep, daemon=True).start()
        atexit.register(self.write)

    def _keep(self) -> None:
        while True:
            if self._written != self.count:
                self.write()
            time.sleep(_EVERY_SECONDS)

    def write(self) -> None:
        """Replace the file; a reader never sees half of one."""
        self._written = self.count
        draft = self._path.with_suffix(".draft")
        draft.write_text(
            json.dumps(
                {
                    "count": self.count, "total": self.total, "first": self.first,
                    "last": self.last, "cpu": time.process_time() - self.cpu_at_first,
                    "delays": list(self.delays),
                }
            ),
            encoding="ascii",
        )  # fmt: skip
        draft.replace(self._path)


def tally() -> Tally:
    """This process's tally; a forked child gets one of its own."""
    return _tally_of(os.getpid())


@cache
def _tally_of(_pid: int) -> Tally:
    return Tally(os.environ["BENCH_RUN"])
