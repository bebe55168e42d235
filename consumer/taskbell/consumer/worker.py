"""One worker process: claim, run under a lease, settle; until it is asked to stop."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

from taskbell.consumer.attempts import Attempts
from taskbell.consumer.intake import Intake
from taskbell.consumer.leases import Claims
from taskbell.consumer.shutdown import Shutdown
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import DatabaseLost, Observer

_AGAIN_SECONDS = 0.5
_FLUSH_SECONDS = 5.0


class Worker:
    """The loop over intake and attempts, and its end."""

    def __init__(
        self,
        intake: Intake,
        claims: Claims,
        attempts: Attempts,
        shutdown: Shutdown,
        observe: Observer,
        *,
        grace: float,
        companions: Sequence[Coroutine[Any, Any, None]],
    ) -> None:
        self._intake = intake
        self._claims = claims
        self._attempts = attempts
        self._shutdown = shutdown
        self._observe = observe
        self._grace = grace
        self._companions = companions
        self._answered = True
        shutdown.when_asked(intake.wake)

    async def run(self) -> bool:
        """Work until asked to stop, with the companions running beside it.

        Answers whether everything ended in good order; if not, some leases are left to expire.
        """
        if not await self._keeper_started():
            for each in self._companions:
                each.close()
            return True
        async with asyncio.TaskGroup() as background:
            own = (self._attempts.settler.run(), self._attempts.watch())
            beside = [background.create_task(each) for each in (*self._companions, *own)]
            while not self._shutdown.asked.is_set():
                await self._turn(background)
            in_good_order = await self._end()
            for companion in beside:
                companion.cancel()
        await self._attempts.keeper.stop()
        return in_good_order

    async def _keeper_started(self) -> bool:
        """Without a connection for heartbeats nothing is claimed."""
        while not self._shutdown.asked.is_set():
            try:
                await self._attempts.keeper.start()
            except DatabaseAway as error:
                await self._wait_for_database(error)
            else:
                return True
        return False

    async def _turn(self, background: asyncio.TaskGroup) -> None:
        try:
            if not self._answered:
                known = self._attempts.held_ids()
                self._attempts.start(await self._claims.unknown(known), background)
                self._answered = True
            leases = await self._intake.next_leases(self._attempts.free)
        except DatabaseAway as error:
            self._answered = False  # a claim may have been committed without our knowing
            await self._wait_for_database(error)
            return
        if leases:
            self._attempts.start(leases, background)

    async def _wait_for_database(self, error: DatabaseAway) -> None:
        self._observe(DatabaseLost("claim", str(error)))
        pause = random.uniform(0.5, 1.5) * _AGAIN_SECONDS  # noqa: S311 - jitter
        await _first(self._shutdown.asked.wait(), asyncio.sleep(pause))

    async def _end(self) -> bool:
        """Let handlers finish within the grace, release the rest, and write what is known."""
        at_once = self._shutdown.at_once.wait
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._intake.stop()
        except (DatabaseAway, TimeoutError) as error:
            self._observe(DatabaseLost("claim", str(error)))
        await _first(self._attempts.finished(), asyncio.sleep(self._grace), at_once())
        await _first(self._attempts.release(), asyncio.sleep(_FLUSH_SECONDS), at_once())
        await _first(self._attempts.settler.drained(), asyncio.sleep(_FLUSH_SECONDS), at_once())
        return self._attempts.settler.unsettled == 0 and self._attempts.running == 0


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Return as soon as one of these does; the others are cancelled."""
    running = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in running:
            each.cancel()
