"""The aio-pika side of the relay: one supervised connection, one channel, confirms with deadlines.

A plain connection inside a loop of our own rather than a robust one: what is connected, since when
and with which marks is then a fact and not a guess.
"""

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aio_pika.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from taskbell.relay import broker
from taskbell.relay.broker import Topology, translated
from taskbell.relay.coalesce import Announcement
from taskbell.relay.lane import Fate
from taskbell.shared.amqp import BrokerAway
from taskbell.shared.clock import loop_time
from taskbell.shared.events import BrokerFound, BrokerLost, Observer, QueueDiffers
from taskbell.shared.topology import EXCHANGE, QueueType

_PURPOSE: Final = "relay"
_LONGEST_WAIT: Final = 5.0
_LAST_WAIT: Final = 1.0
# After so many deadlines without an answer of any kind the connection is replaced.
_PATIENCE: Final = 3
_MOST_REMEMBERED: Final = 10_000
# What pamqp raises for a name that is too long or that its grammar does not know.
_UNENCODABLE: Final = (ValueError, TypeError)


class Link:
    """One connection's life: its channel, what was declared through it, and how it ended."""

    def __init__(
        self,
        connection: AbstractConnection,
        channel: AbstractChannel,
        exchange: AbstractExchange,
        topology: Topology,
    ) -> None:
        self.connection = connection
        self.exchange = exchange
        self.topology = topology
        self.declared: dict[str, float] = {}
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._silent_since: float | None = None
        connection.close_callbacks.add(self._closed)
        channel.close_callbacks.add(self._closed)

    def _closed(self, _: object, error: BaseException | None) -> None:
        self.end("closed" if error is None else str(error) or type(error).__name__)

    def end(self, reason: str) -> None:
        if not self.broken.done():
            self.broken.set_result(reason)

    def remember(self, queue: str) -> None:
        """Note that a queue was declared; one that is forgotten is only declared again."""
        if len(self.declared) >= _MOST_REMEMBERED:
            del self.declared[next(iter(self.declared))]
        self.declared[queue] = time.monotonic()

    def heard(self) -> None:
        self._silent_since = None

    def unheard(self, deadline: float) -> None:
        """Note a deadline that passed; a connection that stays silent is given up."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now - deadline
        if now - self._silent_since >= _PATIENCE * deadline:
            self.end("announcements are not confirmed")


class Publisher:
    """Publishes announcements while there is a connection, which ``run()`` keeps."""

    def __init__(
        self,
        url: str,
        observe: Observer,
        *,
        declare: bool = True,
        queue_type: QueueType = QueueType.CLASSIC,
        deadline: float = 5.0,
        in_flight: int = 250,
        redeclare_after: float = 5.0,
    ) -> None:
        self._url = url
        self._observe = observe
        self._deadline = deadline
        self._topology = partial(
            Topology, declare=declare, queue_type=queue_type, deadline=deadline
        )
        self._redeclare_after = redeclare_after
        self._in_flight = asyncio.Semaphore(in_flight)
        self._limits: set[asyncio.Timeout] = set()
        self._link: Link | None = None
        self._lost: str | None = None
        self.connections = 0
        """How many connections there have been; each makes the marks before it worthless."""

    @property
    def connected(self) -> bool:
        """Whether announcing makes sense now."""
        return self._link is not None and not self._link.broken.done()

    async def run(self, wake: Callable[[], None]) -> None:
        """Stay connected until cancelled; ``wake`` is called after every connect."""
        connecting = AsyncRetrying(
            retry=retry_if_exception_type(BrokerAway),
            wait=wait_random_exponential(multiplier=0.2, max=_LONGEST_WAIT),
            before_sleep=self._report_failure,
        )
        while True:
            link: Link = await connecting(self._connect)
            try:
                self._link = link
                self._lost = None
                self.connections += 1
                self._observe(BrokerFound(_PURPOSE))
                wake()
                self._report(await link.broken)
            finally:
                self._link = None
                await broker.close(link.connection)
            # Whatever broke this connection broke those of other relays too.
            await asyncio.sleep(random.uniform(0.05, 0.5))  # noqa: S311 - jitter

    async def _connect(self) -> Link:
        connection = await broker.connect(self._url, _PURPOSE, self._deadline)
        try:
            return await self._prepare_link(connection)
        except BaseException:
            await broker.close(connection)
            raise

    async def _prepare_link(self, connection: AbstractConnection) -> Link:
        topology = self._topology(connection)
        found = await topology.exchange()
        if not found.ready:
            # Publishing to it would close the channel, or reach nobody.
            raise BrokerAway(f"exchange {found.name} {found}")
        with translated():
            channel = await broker.open_channel(connection, self._deadline, confirms=True)
            exchange = await channel.get_exchange(EXCHANGE, ensure=False)
        return Link(connection, channel, exchange, topology)

    def _report_failure(self, state: RetryCallState) -> None:
        outcome = state.outcome
        self._report(str(outcome.exception()) if outcome else "")

    def _report(self, reason: str) -> None:
        if reason != self._lost:  # said once, however often it is tried
            self._lost = reason
            self._observe(BrokerLost(_PURPOSE, reason))

    async def prepare(self, queue: str) -> Fate:
        """Declare and bind a queue, once a connection; ``CONFIRMED`` if announcing may be tried."""
        link = self._link
        if link is None:
            return Fate.CUT
        if queue in link.declared:
            return Fate.CONFIRMED
        try:
            found = await link.topology.queue(queue)
        except _UNENCODABLE:
            return Fate.UNSENDABLE
        except BrokerAway:
            link.unheard(self._deadline)
            return Fate.UNCONFIRMED
        link.remember(queue)
        if not found.ready:
            self._observe(QueueDiffers(queue, str(found)))
        return Fate.CONFIRMED

    async def publish(self, announcement: Announcement) -> Fate:
        """Publish and wait for the confirm, at most the deadline; whatever breaks is an answer."""
        link = self._link
        if link is None:
            return Fate.CUT
        fate = await self._send(link, announcement)
        if fate is Fate.UNCONFIRMED:
            link.unheard(self._deadline)
        elif fate in {Fate.CONFIRMED, Fate.REFUSED, Fate.RETURNED}:
            link.heard()
        if fate is Fate.RETURNED:
            self._forget(link, announcement.queue)
        return fate

    def hurry(self) -> None:
        """Wait no longer than a second for what is not confirmed yet: the relay is ending."""
        soon = loop_time() + _LAST_WAIT
        for limit in self._limits:
            limit.reschedule(min(soon, limit.when() or soon))

    async def _send(self, link: Link, announcement: Announcement) -> Fate:
        try:
            with translated():
                return await self._confirmed(link, announcement)
        except BrokerAway:
            return Fate.CUT

    async def _confirmed(self, link: Link, announcement: Announcement) -> Fate:
        try:
            async with asyncio.timeout(self._deadline) as limit:
                self._limits.add(limit)
                try:
                    answer = await self._answer(link.exchange, announcement)
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            return Fate.UNCONFIRMED
        except PublishError:
            return Fate.RETURNED
        except DeliveryError:
            return Fate.REFUSED
        except _UNENCODABLE:
            return Fate.UNSENDABLE
        # No exception is not yet an Ack: on other channels a returned message comes back so.
        return Fate.CONFIRMED if isinstance(answer, Basic.Ack) else Fate.RETURNED

    async def _answer(self, exchange: AbstractExchange, announcement: Announcement) -> object:
        async with self._in_flight:
            return await exchange.publish(
                broker.envelope(announcement),
                announcement.queue,
                mandatory=True,
                timeout=self._deadline,
            )

    def _forget(self, link: Link, queue: str) -> None:
        """Let the queue be declared again, but not at every pass: it may be out of our hands."""
        declared_at = link.declared.get(queue)
        if declared_at is not None and time.monotonic() - declared_at >= self._redeclare_after:
            del link.declared[queue]
