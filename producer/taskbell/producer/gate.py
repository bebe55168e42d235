"""Admission: what a birth asks before it gives birth."""

import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

ROOM_SECONDS: Final = 1.0
"""How long it is believed that a queue has room. Its depth is measured each five seconds only."""

UNRATED_SECONDS: Final = 5.0
"""How long it is believed that an owner has no rate; one that is set is kept within that."""

_REMEMBERED: Final = 10_000


class Gate(Enum):
    """How much a producer asks."""

    OPEN = "nothing"
    QUEUE = "whether the queue has room"
    QUEUE_AND_RATE = "that, and whether the owner is within its rate"


class Seen:
    """Queues that had room and owners that had no rate, so that most births need not ask.

    Thread-safe. ``clock`` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._roomy: dict[str, float] = {}
        self._unrated: dict[str, float] = {}

    def note_room(self, queue: str) -> None:
        """Remember that this queue has room."""
        self._roomy = _noted(self._roomy, queue, self._clock())

    def note_unrated(self, owner_id: str) -> None:
        """Remember that this owner has no rate."""
        self._unrated = _noted(self._unrated, owner_id, self._clock())

    def left(self, gate: Gate, owner_ids: Iterable[str], queues: Iterable[str]) -> Gate:
        """Return what of this gate must still be asked for tasks of these owners and queues."""
        now = self._clock()
        if gate is Gate.QUEUE_AND_RATE:
            since = now - UNRATED_SECONDS
            if not all(self._unrated.get(each, since) > since for each in owner_ids):
                return gate
        since = now - ROOM_SECONDS
        roomy = all(self._roomy.get(each, since) > since for each in queues)
        return Gate.OPEN if roomy else Gate.QUEUE


def _noted(memory: dict[str, float], name: str, now: float) -> dict[str, float]:
    if len(memory) >= _REMEMBERED:
        memory = {}
    memory[name] = now
    return memory
