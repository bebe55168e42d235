"""The places between two writes at which a role may die, reported like everything else.

They cost a call each and do nothing by themselves. Whoever listens may show that it does no harm to
stop there for good; the roles hold no switch for it.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from taskbell.shared.events import Event, Level


@dataclass(frozen=True, slots=True)
class PointReached(Event):
    """A role stands at a point; reported once for each batch, not for each task."""

    level: ClassVar[Level] = Level.DEBUG
    point: str


# Made once: reporting one makes no object.
BEFORE_CLAIM: Final = PointReached("before a claim")
AFTER_CLAIM: Final = PointReached("after a claim")
BEFORE_SETTLE: Final = PointReached("before a settlement")
AFTER_SETTLE: Final = PointReached("after a settlement")
BEFORE_MARK: Final = PointReached("before a mark")
BEFORE_PUBLISH: Final = PointReached("before a publish")
AFTER_PUBLISH: Final = PointReached("after a publish")
