"""Clocks for tests: one that stands still, and wrong ones for processes.

Those are libfaketime's, between a process and the system's time of day. Its monotonic clock stays
right, as it does when somebody sets the time of a machine. Debian 12's libfaketime breaks
``time.sleep`` under it (``EINVAL``): handlers of such processes do without.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

_PLACES: Final = (
    "/usr/lib/*-linux-gnu*/faketime",  # Debian, Ubuntu
    "/usr/lib64/faketime",  # Fedora
    "/usr/lib/faketime",  # Arch
)
_LEFT: Final = ("/dev/shm/faketime_shm_{}", "/dev/shm/sem.faketime_sem_{}")  # noqa: S108 - its own


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def wrong_clock(seconds: int) -> dict[str, str]:
    """Give the environment of a process whose clock is ahead by so many seconds."""
    return {
        "LD_PRELOAD": str(_library()),
        "FAKETIME": f"{seconds:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def clean_up_after(pids: Iterable[int]) -> None:
    """Remove what libfaketime leaves in shared memory when its process does not end in peace."""
    for pid in pids:
        for path in _LEFT:
            Path(path.format(pid)).unlink(missing_ok=True)


def _library() -> Path:
    for place in _PLACES:
        for found in Path("/").glob(f"{place[1:]}/libfaketime.so.1"):
            return found
    return pytest.fail("libfaketime was not found: apt-get install libfaketime", pytrace=False)
