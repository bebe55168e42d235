"""Admission: what a birth asks before it gives birth."""

import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

UNRATED_SECONDS: Final = 5.0
"""How long it is believed that an owner has no rate; one that is set is kept within that."""

_REMEMBERED: Final = 10_000


class Gate(Enum):
    """How much a producer asks."""

    OPEN = "nothing"
    QUEUE = "whether the queue has room"
    QUEUE_AND_RATE = "that, and whether the owner is within its rate"


class Unrated:
    """The owners that were seen to have no rate, so that most births need not ask for one.

    Thread-safe. ``clock`` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted: dict[str, float] = {}

    def note(self, owner_id: str) -> None:
        """Remember that this owner has none."""
        if len(self._noted) >= _REMEMBERED:
            self._noted = {}
        self._noted[owner_id] = self._clock()

    def covers(self, owner_ids: Iterable[str]) -> bool:
        """Whether none of these has one, as far as is known."""
        since = self._clock() - UNRATED_SECONDS
        return all(self._noted.get(each, since) > since for each in owner_ids)
