"""One worker process: claim, run under a lease, settle; until it is asked to stop."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

import psycopg

from taskbell.consumer.attempts import Attempts
from taskbell.consumer.intake import Intake
from taskbell.consumer.leases import Claims, Lease
from taskbell.consumer.shutdown import Shutdown
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer
from taskbell.shared.outage import Outage

_AGAIN_SECONDS = 0.5
_FLUSH_SECONDS = 5.0
_HURRIED_FLUSH_SECONDS = 1.0


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
        self._outage = Outage("claim", observe)
        self._grace = grace
        self._companions = companions
        self._answered = True
        shutdown.when_asked(intake.end)

    async def run(self) -> bool:
        """Work until asked to stop, with the companions running beside it.

        Answers whether everything ended in good order; if not, some leases are left to expire.
        """
        try:
            if await self._keeper_started():
                return await self._work()
            for each in self._companions:
                each.close()
            return True
        finally:
            await self._attempts.close()
            await self._claims.close()

    async def _work(self) -> bool:
        async with asyncio.TaskGroup() as background:
            own = (self._attempts.settler.run(), self._attempts.watch())
            beside = [background.create_task(each) for each in (*self._companions, *own)]
            while not self._shutdown.asked.is_set():
                await self._turn()
            in_good_order = await self._end()
            for companion in beside:
                companion.cancel()
        return in_good_order

    async def _keeper_started(self) -> bool:
        """Without a connection for heartbeats nothing is claimed."""
        while not self._shutdown.asked.is_set():
            try:
                await self._attempts.keeper.start()
            except DatabaseAway as error:
                await self._wait_for_database(error)
            else:
                self._outage.found()
                return True
        return False

    async def _turn(self) -> None:
        try:
            if not self._answered:
                await self._adopt()
                await self._claims.require_writable()
                self._outage.found()
            leases = await self._intake.next_leases(self._attempts.free)
        except (DatabaseAway, psycopg.Error) as error:
            self._answered = False  # a claim may have been committed without our knowing
            await self._wait_for_database(error)
            return
        self._begin(leases)

    def _begin(self, leases: Sequence[Lease]) -> None:
        if self._shutdown.asked.is_set():
            self._attempts.give_back(leases)
        else:
            self._attempts.start(leases)

    async def _adopt(self) -> None:
        """Take up what a claim took whose answer we never saw."""
        self._begin(await self._claims.unknown(self._attempts.known()))
        self._answered = True

    async def _wait_for_database(self, error: DatabaseAway | psycopg.Error) -> None:
        self._outage.lost(error)
        pause = random.uniform(0.5, 1.5) * _AGAIN_SECONDS  # noqa: S311 - jitter
        await _first(self._shutdown.asked.wait(), asyncio.sleep(pause))

    async def _end(self) -> bool:
        """Let handlers finish within the grace, release the rest, and write what is known."""
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._intake.stop()
                if not self._answered:
                    await self._adopt()
        except (DatabaseAway, psycopg.Error) as error:
            self._outage.lost(error)
        except TimeoutError:
            self._outage.lost(DatabaseAway("no answer while the worker stops"))
        await _first(
            self._attempts.finished(), asyncio.sleep(self._grace), self._shutdown.at_once.wait()
        )
        await self._unless_hurried(self._attempts.release())
        await self._unless_hurried(self._attempts.settler.drained())
        settled = self._attempts.settler.unsettled == 0 and self._attempts.running == 0
        return settled and self._answered

    async def _unless_hurried(self, step: Coroutine[Any, Any, None]) -> None:
        await _first(step, asyncio.sleep(_FLUSH_SECONDS), self._hurried())

    async def _hurried(self) -> None:
        await self._shutdown.at_once.wait()
        await asyncio.sleep(_HURRIED_FLUSH_SECONDS)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Return as soon as one of these does; the others are cancelled."""
    running = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in running:
            each.cancel()
