"""Stays subscribed to announcements while RabbitMQ comes and goes.

Nothing here is needed for tasks to run: while the broker is away, wrong or empty, the poll finds
them. So nobody ever waits for the broker: what is asked of a subscription is noted, and done by
its own loop when it can be.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Protocol

import tenacity

from taskbell.consumer.declaration import Declaration
from taskbell.consumer.link import Delivery, Link
from taskbell.shared import wire
from taskbell.shared.amqp import BrokerAway
from taskbell.shared.clock import loop_time, rest_until
from taskbell.shared.events import BrokerFound, BrokerLost, Observer
from taskbell.shared.ids import TaskId, WorkerId
from taskbell.shared.topology import QueueType, broker_queue

_LOOK_SECONDS = 10.0
_PAUSE = tenacity.wait_random_exponential(multiplier=0.5, max=5)


class Notice(Protocol):
    """Where ids are noted."""

    def __call__(self, task_ids: Sequence[TaskId], handle: object) -> None:
        """Remember these ids; ``handle`` acknowledges them or gives them back."""
        ...


class Subscription:
    """One connection, one channel, one broker consumer for each queue; connects again for ever.

    Public methods but ``run`` return at once and raise nothing.
    """

    def __init__(
        self,
        url: str,
        queues: Sequence[str],
        worker_id: WorkerId,
        queue_type: QueueType,
        notice: Notice,
        changed: Callable[[], None],
        observe: Observer,
    ) -> None:
        self._url = url
        self._missing: list[str] = []
        self._wanted = {queue: broker_queue(queue, queue_type) for queue in queues}
        self._worker_id = worker_id
        self._notice = notice
        self._changed = changed
        self._observe = observe
        self._declaration = Declaration(observe)
        self._stirred = asyncio.Event()
        self._paused = False
        self._done: list[Delivery] = []
        self._unwanted: list[Delivery] = []
        self.connected = False
        """Whether announcements of every queue can arrive."""

    def acknowledge(self, handles: Sequence[object]) -> None:
        """Tell the broker that these announcements did their work."""
        self._done += (each for each in handles if isinstance(each, Delivery))
        self._stirred.set()

    def give_back(self, handles: Sequence[object]) -> None:
        """Let another consumer have these announcements."""
        self._unwanted += (each for each in handles if isinstance(each, Delivery))
        self._stirred.set()

    def pause(self) -> None:
        """Take no more announcements."""
        self._paused = True
        self._stirred.set()

    def resume(self) -> None:
        """Take announcements again."""
        self._paused = False
        self._stirred.set()

    async def run(self) -> None:
        """Stay subscribed until cancelled."""
        while True:
            link = await self._linked()
            try:
                await self._serve(link)
            except BrokerAway as error:
                self._lost(error)
            finally:
                self._tell_connected(connected=False)
                await link.close()
            await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - jitter

    async def _linked(self) -> Link:
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(BrokerAway), wait=_PAUSE, after=self._report
        ):
            with attempt:
                return await Link.open(self._url, self._worker_id, self._take, self._stirred.set)
        raise AssertionError("unreachable: retried for ever")

    def _report(self, tries: tenacity.RetryCallState) -> None:
        if tries.outcome is not None:
            self._lost(tries.outcome.exception())

    def _lost(self, error: BaseException | None) -> None:
        self._observe(BrokerLost("subscription", str(error)))

    async def _serve(self, link: Link) -> None:
        """Do what is asked until the link breaks; raises ``BrokerAway``."""
        self._missing = list(self._wanted)
        await self._look(link)
        self._observe(BrokerFound("subscription"))
        look_at = loop_time() + _LOOK_SECONDS
        while not link.broken:
            self._stirred.clear()
            if self._missing and loop_time() >= look_at:
                await self._look(link)
                look_at = loop_time() + _LOOK_SECONDS
            await self._do_what_was_asked(link)
            self._tell_connected(connected=not self._missing)
            await rest_until(self._stirred, look_at - loop_time() if self._missing else None)
        raise BrokerAway("closed or cancelled by the broker")

    async def _look(self, link: Link) -> None:
        """Declare what is missing."""
        missing, self._missing = self._missing, []
        for queue in missing:
            if not await self._declaration.declare(link.connection, self._wanted[queue]):
                self._missing.append(queue)

    async def _do_what_was_asked(self, link: Link) -> None:
        for queue, wanted in self._wanted.items():
            if self._paused:
                await link.cancel(queue, wanted.name)
            elif queue not in self._missing:
                await link.consume(queue, wanted.name)
        # Only now: given back before we stopped consuming, they would come to us again.
        done, self._done = self._done, []
        unwanted, self._unwanted = self._unwanted, []
        # After the claim an ack is worth nothing, and a lost one costs nothing: never repeated.
        await link.acknowledge(done)
        await link.give_back(unwanted)

    def _tell_connected(self, *, connected: bool) -> None:
        if connected != self.connected:
            self.connected = connected
            self._changed()

    def _take(self, delivery: Delivery) -> None:
        try:
            task_ids = wire.decode(delivery.message.body)
        except wire.NotAnAnnouncement:  # whoever sent it: ids only, all else is ignored
            self.acknowledge([delivery])
        else:
            self._notice(task_ids, delivery)
