"""The loop that runs the duties, at the fleet's pace and for a small share of the time."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Protocol

import psycopg

from taskbell.shared.clock import loop_time
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Event, Observer
from taskbell.shared.maintenance.collect import Collect
from taskbell.shared.maintenance.measure import Measure
from taskbell.shared.maintenance.promote import Promote
from taskbell.shared.maintenance.prune import Prune
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.maintenance.vacuum import Vacuum
from taskbell.shared.outage import Outage
from taskbell.shared.statements import upkeep
from taskbell.shared.storage import Storage

_TICK = 0.1
# The fleet rests 20 times as long as a duty took: maintenance costs 5 % of one connection at most.
_REST_FACTOR = 20
# After an outage longer than a lease the keepers must beat before anybody reaps.
_GRACE_AFTER_CONNECT = 2.0
_RECONNECT_SECONDS = 1.0
_LONGEST_SLEEP = 60.0


class Duty(Protocol):
    """One kind of maintenance."""

    name: ClassVar[str]
    """Its row in ``duty``."""

    @property
    def interval(self) -> float:
        """Seconds between two runs, fleet-wide; the same in every process, and always."""
        ...

    async def run_once(self, connection: DedicatedConnection) -> Event | Sequence[Event] | None:
        """Do a bounded piece of work and say what was done."""
        ...

    async def pause(self, connection: DedicatedConnection) -> float:
        """Seconds until it is due again, after a run."""
        ...


class Caretaker:
    """Runs all duties until cancelled, on a connection of its own.

    Objects are collected beside them, on another one: a storage may take its time, reaping may not.
    """

    def __init__(
        self,
        database: Database,
        observe: Observer,
        *,
        keep_days: float,
        storage: Storage | None = None,
        duties: Sequence[Duty] | None = None,
        purpose: str = "maintenance",
    ) -> None:
        """``duties``: all of them unless named."""
        self._connection = DedicatedConnection(database, purpose)
        self._observe = observe
        self._beside: Caretaker | None = None
        if storage is not None:
            self._beside = Caretaker(
                database,
                observe,
                keep_days=keep_days,
                duties=(Collect(storage),),
                purpose="collector",
            )
        if duties is None:
            duties = (Reap(), Promote(), Measure(), Vacuum(), Prune(keep_days))
        self._duties = tuple(duties)
        self._not_before = {duty.name: 0.0 for duty in self._duties}
        self._outage = Outage(purpose, observe)
        self._troubles = {duty.name: Outage(duty.name, observe) for duty in self._duties}

    async def run(self) -> None:
        """Run for ever; a database that is away is waited for."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._run(), name="maintenance")
            if self._beside is not None:
                loops.create_task(self._beside.run(), name="collector")

    async def _run(self) -> None:
        connected = False
        while True:
            try:
                if not connected:
                    await self._connection.require_writable()
                    self._outage.found()
                    if Reap.name in self._not_before:
                        self._not_before[Reap.name] = loop_time() + _GRACE_AFTER_CONNECT
                    connected = True
                await self.run_once()
            except DatabaseAway as error:
                connected = False
                self._outage.lost(error)
                await asyncio.sleep(random.uniform(0.5, 1.5) * _RECONNECT_SECONDS)  # noqa: S311 - jitter
            tick = random.uniform(0.5, 1.5) * _TICK  # noqa: S311 - jitter
            await asyncio.sleep(max(0.0, min(self._not_before.values()) - loop_time()) + tick)

    async def run_once(self) -> None:
        """Run the duties that are due and not taken by others; raises ``DatabaseAway``."""
        for duty in self._duties:
            if loop_time() >= self._not_before[duty.name]:
                await self._perform(duty)

    async def _perform(self, duty: Duty) -> None:
        due_in = duty.interval
        try:
            (turn,) = await self._connection.run(
                upkeep.TAKE_DUTY, name=duty.name, interval=duty.interval
            )
            due_in = turn.due_in
            if turn.taken_at is not None:
                due_in = await self._run_and_rest(duty, turn.taken_at)
                self._troubles[duty.name].found()
        except psycopg.Error as error:  # one duty that fails must not stop the others
            self._troubles[duty.name].lost(error)
        self._not_before[duty.name] = loop_time() + min(due_in, _LONGEST_SLEEP)

    async def _run_and_rest(self, duty: Duty, taken_at: datetime) -> float:
        started, pause = loop_time(), duty.interval
        try:
            self._report(await duty.run_once(self._connection))
            pause = await duty.pause(self._connection)
        finally:
            rest = max(pause, _REST_FACTOR * (loop_time() - started))
            if rest != duty.interval:
                fence: dict[str, object] = {"name": duty.name, "taken_at": taken_at}
                await self._connection.run(
                    upkeep.REST_DUTY, interval=duty.interval, rest=rest, **fence
                )
        return rest

    def _report(self, done: Event | Sequence[Event] | None) -> None:
        events = () if done is None else (done,) if isinstance(done, Event) else done
        for event in events:
            self._observe(event)

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()
        if self._beside is not None:
            await self._beside.close()
