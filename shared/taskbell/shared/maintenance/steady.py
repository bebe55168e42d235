"""The pace of duties that are due an interval after they ran."""

from taskbell.shared.database import DedicatedConnection


class Steady:
    """Gives a duty its pause."""

    __slots__ = ()

    interval: float
    """Seconds."""

    async def pause(self, connection: DedicatedConnection) -> float:
        """Seconds until it is due again, after a run."""
        del connection
        return self.interval
