"""How far the effect of an attempt has come, as its worker must know it."""

from enum import Enum


class Stage(Enum):
    """What may be settled of an attempt, and what its keeper and its watchdog may conclude."""

    NONE = "no effect, or one that was rolled back"
    OPEN = "a transaction is open"
    LOCKED = "a transaction is open and has the lease locked: nobody can take it"
    SETTLING = "the settlement was sent; only its answer tells who has the lease"
    SETTLED = "committed: the attempt is settled"
    ELSEWHERE = "committed in another database: completed, and yet to be settled"
    UNKNOWN = "the commit was not answered: settling tells whether it took place"
    LOST = "somebody else has the task; nothing of the effect was written"

    @property
    def holds(self) -> bool:
        """Whether a lease row that is locked is locked by this effect."""
        return self in {Stage.LOCKED, Stage.SETTLING}

    @property
    def decides(self) -> bool:
        """Whether a lease that is gone means nothing, since the effect itself took it."""
        return self in {Stage.SETTLING, Stage.SETTLED, Stage.UNKNOWN}
