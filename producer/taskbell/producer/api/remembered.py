"""What was found out lately, for a while, and of so many at most."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """Keeps values under digests until their time is over; the one used longest ago goes first."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, T]] = OrderedDict()

    def get(self, digest: bytes) -> T | None:
        """Return what is kept, if its time is not over."""
        kept = self._kept.get(digest)
        if kept is None:
            return None
        until, value = kept
        if until <= self._clock():
            del self._kept[digest]
            return None
        self._kept.move_to_end(digest)
        return value

    def keep(self, digest: bytes, value: T, seconds: float) -> None:
        """Keep a value for so many seconds; none for no time."""
        if seconds <= 0:
            return
        self._kept[digest] = (self._clock() + seconds, value)
        self._kept.move_to_end(digest)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
