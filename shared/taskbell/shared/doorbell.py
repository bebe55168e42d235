"""The doorbell: sleep while nothing is due, and be woken by whoever fills ``outbox``.

A listener keeps one row in ``bell``. While work comes in fast it promises to look by itself
(``awake_until``) and nobody rings; asleep it listens, and looks once a second all the same. A
promise is outlived by a second, since a producer may have enqueued while it held and commit after.
Where LISTEN hears nothing (a pooler in between) it polls instead.
"""

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection

from taskbell.shared.clock import loop_time, rest_until
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import DoorbellDeaf, Observer
from taskbell.shared.limits import LEVELS
from taskbell.shared.outage import Outage
from taskbell.shared.statements import bell, outbox

_AWAKE_SECONDS = 2.0
_PROMISE_EVERY = 1.0
_LISTEN_SECONDS = 10.0
_LISTEN_EVERY = 3.0
_SAFETY_SECONDS = 1.0
_AWAKE_REST = 0.01
_BUSY_PASSES = 20
_HEARING_TEST_EVERY = 10.0
_HEARING_TEST_SECONDS = 1.0
_RECONNECT_SECONDS = 1.0
_DEAF_TEST_EVERY = 30.0


class Doorbell:
    """One listener's side of the bell.

    Run ``listen()`` in the background and call ``rest()`` after every pass.
    """

    def __init__(
        self,
        database: Database,
        listener_id: str,
        observe: Observer,
        *,
        deaf_interval: float = 0.02,
    ) -> None:
        self._database = database
        self._listener_id = listener_id
        self._observe = observe
        self._deaf_interval = deaf_interval
        self._rung = asyncio.Event()
        self._worked: deque[float] = deque(maxlen=_BUSY_PASSES)
        self._promised_at = float("-inf")
        self._listening_at = float("-inf")
        self._told_deaf = False
        self._outage = Outage("doorbell", observe)
        self.hears = False
        """Whether this listener's own test ring arrived."""

    def wake(self) -> None:
        """End the current rest, or the next one, at once."""
        self._rung.set()

    async def rest(
        self, connection: DedicatedConnection, queues: Sequence[str], *, worked: bool
    ) -> None:
        """Return when it is time for the next pass over these queues, after a second at the latest.

        ``worked``: the pass before found something; then the next one follows at once. Promises are
        written through ``connection``; raises ``DatabaseAway``.
        """
        now = loop_time()
        if worked:
            self._worked.append(now)
        if not self.hears:
            pause = 0.0 if worked else self._deaf_interval
        elif self._busy(now):
            await self._promise(connection, now)
            pause = 0.0 if worked else _AWAKE_REST
        elif now < self._promised_at + _AWAKE_SECONDS + 1.0:
            pause = 0.0 if worked else _AWAKE_REST
        else:
            await self._fall_asleep(connection, now)
            pause = 0.0 if worked else await self._sleep_of(connection, queues)
        await self._wait(pause)

    def _busy(self, now: float) -> bool:
        return len(self._worked) == _BUSY_PASSES and now - self._worked[0] < 1.0

    async def _promise(self, connection: DedicatedConnection, now: float) -> None:
        if now - self._promised_at >= _PROMISE_EVERY:
            await self._write(connection, awake=_AWAKE_SECONDS)
            self._promised_at = loop_time()
            self._listening_at = self._promised_at

    async def _fall_asleep(self, connection: DedicatedConnection, now: float) -> None:
        if now - self._listening_at >= _LISTEN_EVERY:
            await self._write(connection, awake=0.0)
            self._listening_at = now

    async def _sleep_of(self, connection: DedicatedConnection, queues: Sequence[str]) -> float:
        """How long nobody needs to look, unless the bell rings: until the next entry is due."""
        row = (await connection.run(outbox.NEXT_DUE, queues=list(queues), levels=list(LEVELS)))[0]
        return _SAFETY_SECONDS if row.seconds is None else min(_SAFETY_SECONDS, row.seconds)

    async def _write(self, connection: DedicatedConnection, awake: float) -> None:
        await connection.run(
            bell.PROMISE, listener_id=self._listener_id, awake=awake, listen=_LISTEN_SECONDS
        )

    async def _wait(self, pause: float) -> None:
        try:
            await rest_until(self._rung, pause)
        finally:
            self._rung.clear()

    async def leave(self, connection: DedicatedConnection) -> None:
        """Take this listener's row away, so that nobody rings for it."""
        await connection.run(bell.FORGET, listener_id=self._listener_id)

    async def listen(self) -> None:
        """Hear rings until cancelled; connects again for ever."""
        if self._database.behind_pooler:
            self._observe(DoorbellDeaf(self._listener_id, self._deaf_interval))
            return
        while True:
            try:
                connection = await self._database.connect("doorbell")
                async with connection:
                    await self._hear(connection)
            except (psycopg.Error, DatabaseAway) as error:
                self._outage.lost(error)
            finally:
                self.hears = False
            pause = _DEAF_TEST_EVERY if self._told_deaf else _RECONNECT_SECONDS
            await asyncio.sleep(random.uniform(0.5, 1.5) * pause)  # noqa: S311 - jitter

    async def _hear(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(f"LISTEN {bell.CHANNEL}".encode())
        self._outage.found()
        while await self._hears_itself(connection):
            self.hears = True
            self._told_deaf = False
            async for _ in connection.notifies(timeout=_HEARING_TEST_EVERY):
                self._rung.set()
        if not (self.hears or self._told_deaf):
            self._told_deaf = True
            self._observe(DoorbellDeaf(self._listener_id, self._deaf_interval))

    async def _hears_itself(self, connection: AsyncConnection[Any]) -> bool:
        await connection.execute(bell.TEST_RING.for_psycopg, {"listener_id": self._listener_id})
        async for notice in connection.notifies(timeout=_HEARING_TEST_SECONDS):
            self._rung.set()
            if notice.payload == self._listener_id:
                return True
        return False
