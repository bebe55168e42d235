"""Says now and then that this worker is there and how much it settled.

For people and for measuring; nothing is decided from it.
"""

import asyncio
import os
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import psycopg

from taskbell.consumer.attempts import Attempts
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer, StatementFailed
from taskbell.shared.ids import WorkerId
from taskbell.shared.outage import without_values
from taskbell.shared.statements import upkeep

_EVERY = 5.0
_DEPART_SECONDS = 1.0


class Census:
    """One row in ``worker``, and counts added to ``queue``, every five seconds."""

    def __init__(
        self,
        connection: DedicatedConnection,
        worker_id: WorkerId,
        attempts: Attempts,
        slots: int,
        queues: Sequence[str],
        observe: Observer,
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._attempts = attempts
        self._slots = slots
        self._queues = list(queues)
        self._observe = observe

    async def run(self) -> None:
        """Report until cancelled, and then take the row away.

        What could not be reported is reported the next time.
        """
        try:
            while True:
                await self._tolerated(self.run_once())
                await asyncio.sleep(_EVERY)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_DEPART_SECONDS):
                    await self._tolerated(self._depart())
            await self._connection.close()

    async def _tolerated(self, report: Coroutine[Any, Any, None]) -> None:
        try:
            await report
        except DatabaseAway:
            return  # whoever claims and settles has said so
        except psycopg.Error as error:
            self._observe(StatementFailed("census", without_values(error)))

    async def run_once(self) -> None:
        """Report once; raises ``DatabaseAway``."""
        await self._connection.run(
            upkeep.ATTEND,
            worker_id=self._worker_id,
            role="consumer",
            host=socket.gethostname(),
            pid=os.getpid(),
            running=self._attempts.running,
            slots=self._slots,
            queues=self._queues,
        )
        counted = self._attempts.settled.copy()
        if counted:
            await self._connection.run(
                upkeep.COUNT_SETTLED, queues=list(counted), counts=list(counted.values())
            )
            self._attempts.settled -= counted

    async def _depart(self) -> None:
        await self.run_once()
        await self._connection.run(upkeep.DEPART, worker_id=self._worker_id)
