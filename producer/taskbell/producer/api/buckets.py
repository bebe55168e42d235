"""Rates of owners and keys, one bucket for all replicas."""

from taskbell.producer.api.principal import Principal
from taskbell.shared.connections import Runner


class Buckets:
    """Takes tokens before tasks are submitted."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def take(self, principal: Principal, count: int) -> None:
        """Take a token for each task; raises ``RateLimited``, ``DatabaseAway``."""
