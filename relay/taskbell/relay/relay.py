"""The relay's loop: promote, mark, publish, take back what was not published, rest at the bell.

Entries are chosen by their state, never by an id cursor: the order of commits is not the order of
ids. Any number of relays may run; a mark is what keeps them out of each other's way.
"""

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from taskbell.relay.coalesce import Announcement, coalesce
from taskbell.relay.lane import Fate, Lane
from taskbell.relay.pace import Pace, Pass
from taskbell.relay.publisher import Publisher
from taskbell.shared.clock import loop_time, rest_until
from taskbell.shared.database import Database, DedicatedConnection, Rows
from taskbell.shared.doorbell import Doorbell
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import (
    AnnouncementRefused,
    Observer,
    TasksAnnounced,
)
from taskbell.shared.floors import Floors
from taskbell.shared.ids import TaskId
from taskbell.shared.limits import LEVELS
from taskbell.shared.maintenance.promote import Promoter
from taskbell.shared.outage import Outage
from taskbell.shared.points import AFTER_PUBLISH, BEFORE_MARK, BEFORE_PUBLISH
from taskbell.shared.statements import outbox

_PURPOSE = "relay"
_RECONNECT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Sent:
    lane: Lane
    announcement: Announcement
    fate: "asyncio.Task[Fate]"


class Relay:
    """Announces what is due, until ``stop()``."""

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        doorbell: Doorbell,
        observe: Observer,
        *,
        window: int = 2000,
        batch: int = 1000,
    ) -> None:
        self._connection = DedicatedConnection(database, _PURPOSE)
        self._publisher = publisher
        self._doorbell = doorbell
        self._observe = observe
        self._window = window
        self._batch = batch
        self._promoter = Promoter()
        self._floors = Floors()
        self._pace = Pace()
        self._lanes: dict[str, Lane] = {}
        self._refused: list[TaskId] = []
        self._connections = 0
        self._connected_at = datetime(1970, 1, 1, tzinfo=UTC)
        self._stopping = asyncio.Event()
        self._outage = Outage(_PURPOSE, observe)

    def stop(self) -> None:
        """Let the running pass be the last."""
        self._stopping.set()
        self._publisher.hurry()
        self._doorbell.wake()

    async def run(self) -> None:
        """Pass and rest until ``stop()``; a database or a broker that is away is waited for."""
        try:
            while not self._stopping.is_set():
                await self._go_on()
            with suppress(DatabaseAway, psycopg.Error):  # the row in `bell` runs out by itself
                await self._doorbell.leave(self._connection)
        finally:
            await self._connection.close()

    async def _go_on(self) -> None:
        try:
            await self._pass_and_rest()
        except (DatabaseAway, psycopg.Error) as error:
            self._outage.lost(error)
            await self._pause(random.uniform(0.5, 1.5) * _RECONNECT_SECONDS)  # noqa: S311 - jitter

    async def _pass_and_rest(self) -> None:
        started = loop_time()
        done = await self.run_once()
        ended = loop_time()
        self._outage.found()
        if not self._stopping.is_set():
            await self._doorbell.rest(self._connection, list(self._lanes), worked=done.tasks > 0)
            rest = self._pace.rest_after(done, started=started, ended=ended)
            await self._pause(ended + rest - loop_time())

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await rest_until(self._stopping, seconds)

    async def run_once(self) -> Pass:
        """Make one pass over all queues; raises ``DatabaseAway``."""
        promoted = await self._promoter.run_once(self._connection)
        if promoted is not None:
            self._observe(promoted)
        await self._take_back()
        if not await self._meet_broker():
            return Pass()  # no marks while nobody could hear of them
        done = await self._announce_waiting()
        await self._take_back()
        return done

    async def _meet_broker(self) -> bool:
        """Tell whether the broker is there; note since when, by the database's clock."""
        if not self._publisher.connected:
            return False
        if self._publisher.connections != self._connections:
            connections = self._publisher.connections
            self._connected_at = (await self._connection.run(outbox.CLOCK))[0].now
            self._connections = connections
        return True

    async def _announce_waiting(self) -> Pass:
        sent: list[_Sent] = []
        trouble: DatabaseAway | psycopg.Error | None = None
        full = False
        async with asyncio.TaskGroup() as background:
            try:
                for lane in await self._open_lanes():
                    if self._stopping.is_set():
                        break
                    # Mark committed, then publish: a consumer claims within a millisecond, and
                    # would skip an entry that a mark still locks, and spend the announcement.
                    batch = lane.batch(self._batch)
                    marked = await self._mark(lane, batch)
                    if marked:
                        self._observe(BEFORE_PUBLISH)
                    full = full or len(marked) == self._batch
                    for announcement in coalesce(lane.queue, marked):
                        publishing = background.create_task(self._publisher.publish(announcement))
                        sent.append(_Sent(lane, announcement, publishing))
            except (DatabaseAway, psycopg.Error) as error:
                trouble = error  # what is marked is published all the same
        if sent:
            self._observe(AFTER_PUBLISH)
        tasks = self._judge(sent)
        if trouble is not None:
            raise trouble
        return Pass(tasks, full and tasks > 0)

    async def _open_lanes(self) -> Iterable[Lane]:
        queues = [row.queue for row in await self._connection.run(outbox.WAITING_QUEUES)]
        self._lanes = {queue: self._lanes.get(queue) or Lane(queue) for queue in queues}
        now = loop_time()
        return [lane for lane in self._lanes.values() if lane.is_open(now)]

    async def _mark(self, lane: Lane, batch: int) -> Rows:
        """Mark a batch of a queue that RabbitMQ knows; it is committed on return."""
        fate = await self._publisher.prepare(lane.queue)
        if fate is not Fate.CONFIRMED:
            lane.judge({fate}, loop_time(), random.random())  # noqa: S311 - jitter
            if fate is not Fate.CUT:  # the publisher tells of that
                self._observe(AnnouncementRefused(lane.queue, 0, fate))
            return []
        self._observe(BEFORE_MARK)
        return await self._connection.run(
            outbox.ANNOUNCE,
            queue=lane.queue,
            levels=list(LEVELS),
            floors=await self._floors.of(lane.queue, self._connection),
            window=self._window,
            batch=batch,
            mark_age=outbox.MARK_SECONDS,
            connected_at=self._connected_at,
        )

    def _judge(self, sent: list[_Sent]) -> int:
        """Learn what became of a pass's announcements; returns the tasks that were announced."""
        by_lane: dict[str, list[_Sent]] = {}
        for one in sent:
            by_lane.setdefault(one.lane.queue, []).append(one)
        return sum(self._judge_lane(queue, ones) for queue, ones in by_lane.items())

    def _judge_lane(self, queue: str, sent: list[_Sent]) -> int:
        tasks: dict[Fate, int] = {}
        for one in sent:
            fate = one.fate.result()
            tasks[fate] = tasks.get(fate, 0) + len(one.announcement.task_ids)
            if fate is not Fate.CONFIRMED:
                self._refused.extend(one.announcement.task_ids)
        sent[0].lane.judge(set(tasks), loop_time(), random.random())  # noqa: S311 - jitter
        confirmed = tasks.pop(Fate.CONFIRMED, 0)
        if confirmed:
            announcements = sum(one.fate.result() is Fate.CONFIRMED for one in sent)
            self._observe(TasksAnnounced(queue, announcements, confirmed))
        for fate, count in tasks.items():
            self._observe(AnnouncementRefused(queue, count, fate))
        return confirmed

    async def _take_back(self) -> None:
        """Unmark what was not announced, so that it is announced again before its mark expires."""
        if self._refused:
            await self._connection.run(outbox.UNANNOUNCE, task_ids=self._refused)
            self._refused = []
