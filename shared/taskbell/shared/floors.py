"""Where each priority level of a queue begins: a hint that keeps passes cheap.

While some transaction holds an old snapshot, dead index entries cannot be removed, and a pass that
starts at the beginning of time walks them all. An entry that appears below its floor (a transaction
that was open for more than two seconds) is seen at the next refresh.
"""

from dataclasses import dataclass
from datetime import datetime

from taskbell.shared.clock import loop_time
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.limits import LEVELS
from taskbell.shared.statements import outbox

_REFRESH_SECONDS = 1.0
_REST_FACTOR = 20


@dataclass(slots=True)
class Known:
    """The floors of one queue and the instant (of the event loop) when they are looked up again."""

    floors: list[datetime]
    refresh_at: float


class Floors:
    """The floors of every queue a process looks at, refreshed once a second."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._forget_at = 0.0

    async def of(self, queue: str, connection: DedicatedConnection) -> list[datetime]:
        """Return one instant for each of ``LEVELS``; raises ``DatabaseAway``."""
        now = loop_time()
        self._forget_old(now)
        known = self._known.get(queue)
        if known is None or now >= known.refresh_at:
            rows = await connection.run(outbox.FLOORS, queue=queue, levels=list(LEVELS))
            heads = {row.priority: row.head for row in rows}
            took = loop_time() - now
            known = Known(
                [heads[level] for level in LEVELS],
                now + max(_REFRESH_SECONDS, _REST_FACTOR * took),
            )
            self._known[queue] = known
        return known.floors

    def _forget_old(self, now: float) -> None:
        if now >= self._forget_at:
            self._forget_at = now + _REFRESH_SECONDS
            self._known = fresh(self._known, now)


def fresh(known: dict[str, Known], now: float) -> dict[str, Known]:
    """Keep what need not be looked up anew: no queue that is not looked at any more."""
    return {queue: each for queue, each in known.items() if each.refresh_at > now}
