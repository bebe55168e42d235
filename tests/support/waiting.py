"""Waits for what another process does, which no signal of ours can tell."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE: Final = 120.0
"""Seconds: patience costs nothing where all goes well, and a loaded machine may need it."""
_LOOK_SECONDS = 0.05
T = TypeVar("T")


def wait_until(what: str, look: Callable[[], T], patience: float = PATIENCE) -> T:
    """Return the first truthy answer of ``look``; after ``patience`` seconds the test fails."""
    deadline = time.monotonic() + patience
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"after {patience:.0f} s still not: {what} (last: {answer!r})")
        time.sleep(_LOOK_SECONDS)
