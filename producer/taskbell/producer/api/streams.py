"""How many callers may stay: event streams, and cancels that wait for the end of a task.

They are no requests in flight, which come and go, and one owner must not take all places.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from taskbell.producer.api import problems
from taskbell.producer.api.metrics import Metrics

_AGAIN_SECONDS: Final = 5


class Streams:
    """Gives places to those who stay, ``most`` in all and ``most_of_owner`` to each owner."""

    def __init__(self, metrics: Metrics, most: int, most_of_owner: int) -> None:
        self._metrics = metrics
        self._most = most
        self._most_of_owner = most_of_owner
        self._of_owners: Counter[str] = Counter()

    @contextmanager
    def one(self, owner_id: str) -> Generator[None]:
        """Hold a place; raises ``Problem``: ``rate-limited``, ``overloaded``."""
        if self._of_owners[owner_id] >= self._most_of_owner:
            detail = "this owner has too many event streams and waits open"
            raise problems.later("rate-limited", _AGAIN_SECONDS, detail, limited="owner")
        if self._metrics.streams >= self._most:
            detail = "there are too many event streams and waits open"
            raise problems.later("overloaded", _AGAIN_SECONDS, detail)
        self._of_owners[owner_id] += 1
        try:
            with self._metrics.streaming():
                yield
        finally:
            self._of_owners[owner_id] -= 1
            if not self._of_owners[owner_id]:
                del self._of_owners[owner_id]
