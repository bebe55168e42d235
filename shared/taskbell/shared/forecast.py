"""When a task that waits may start: an estimate from what was measured of its queue. Pure."""

from taskbell.shared.limits import DELAY_SECONDS


def forecast(
    *,
    due_in: float,
    depth: int | None,
    oldest_age: float | None,
    drain_rate: float | None,
    held: bool,
) -> tuple[int | None, float | None]:
    """Return about where in the queue the task is, from 1, and in how many seconds it may start.

    ``due_in``: seconds, negative once it is due. ``depth``, ``oldest_age`` (seconds) and
    ``drain_rate`` (tasks a second) are those of its queue when it was last measured. ``held``: it
    waits for something else than its turn. None where nothing can be told. As if the queue were
    served by age and filled evenly: priorities are not regarded.
    """
    if held:
        return None, None
    if due_in > 0:
        return None, due_in
    if depth is None:
        return None, None
    position = max(1, round(depth * (1 - _share_before(-due_in, oldest_age))))
    if not drain_rate:
        return position, None
    seconds = position / drain_rate
    return position, seconds if seconds <= DELAY_SECONDS else None


def _share_before(waited: float, oldest_age: float | None) -> float:
    """How much of the queue's span of ages lies behind a task; 1 for the oldest."""
    return min(1.0, waited / oldest_age) if oldest_age else 0.0
