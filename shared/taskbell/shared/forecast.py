"""When a task that waits may start: an estimate from what was measured of its queue. Pure."""

from typing import Final

from taskbell.shared.limits import DELAY_SECONDS

COUNTED: Final = 100
"""So many of those who are served before a task are counted; the rest is estimated."""


def forecast(
    *,
    due_in: float,
    ahead: int,
    depth: int | None,
    oldest_age: float | None,
    drain_rate: float | None,
    held: bool,
) -> tuple[int | None, float | None]:
    """Return where in the queue the task is, from 1, and in how many seconds it may start.

    ``due_in``: seconds, negative once it is due. ``ahead``: who is served before it, counted up to
    ``COUNTED``. ``depth``, ``oldest_age`` (seconds) and ``drain_rate`` (tasks a second) are those
    of its queue when it was last measured. ``held``: it waits for something else than its turn.
    None where nothing can be told. Who becomes due meanwhile and is served before is not foreseen.
    """
    if held:
        return None, None
    if due_in > 0:
        return None, due_in
    position = ahead + 1 if ahead < COUNTED else _beyond(-due_in, depth, oldest_age)
    if not drain_rate:
        return position, None
    seconds = position / drain_rate
    return position, seconds if seconds <= DELAY_SECONDS else None


def _beyond(waited: float, depth: int | None, oldest_age: float | None) -> int:
    """Estimate a place behind all that are counted.

    As if the queue had been filled evenly, unless the task would then be among those who were
    counted: many came together, and it is somewhere between them and the last.
    """
    last = max(COUNTED + 1, depth or 0)
    evenly = round(last * (1 - waited / oldest_age)) if oldest_age else 0
    return evenly if evenly > COUNTED else (COUNTED + 1 + last) // 2
