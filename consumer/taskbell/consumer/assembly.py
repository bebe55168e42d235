"""Builds a worker from its parts."""

from taskbell.consumer.attempts import Attempts
from taskbell.consumer.census import Census
from taskbell.consumer.contents import Contents
from taskbell.consumer.effects import Effects
from taskbell.consumer.intake import Intake
from taskbell.consumer.leases import Claims
from taskbell.consumer.registry import Consumer
from taskbell.consumer.settings import ConsumerSettings
from taskbell.consumer.shutdown import Shutdown
from taskbell.consumer.subscription import Subscription
from taskbell.consumer.worker import Worker
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.doorbell import Doorbell
from taskbell.shared.events import Observer
from taskbell.shared.ids import WorkerId
from taskbell.shared.maintenance.caretaker import Caretaker

_DEAF_INTERVAL = 0.2


def assemble(
    handlers: Consumer,
    settings: ConsumerSettings,
    worker_id: WorkerId,
    shutdown: Shutdown,
    observe: Observer,
) -> Worker:
    """Build a worker; needs a running event loop."""
    database, url = settings.database, settings.broker_url
    queues = settings.queues or handlers.queues
    storage, seals = settings.storage, settings.seals
    if seals is not None:
        seals.report_to(observe)
    contents = Contents(database, seals, storage, observe)
    caretaker = Caretaker(database, observe, keep_days=settings.retention_days, storage=storage)
    companions = [_cared_for(caretaker)]
    doorbell: Doorbell | None = None
    if url is None:
        doorbell = Doorbell(database, worker_id, observe, deaf_interval=_DEAF_INTERVAL)
        companions.append(doorbell.listen())
    connection = DedicatedConnection(database, "claim")
    claims = Claims(connection, worker_id, handlers.registrations.values())
    intake = Intake(
        claims, connection, queues, observe,
        slots=settings.slots, poll_interval=settings.poll_interval, doorbell=doorbell,
    )  # fmt: skip
    if url is not None:
        intake.subscription = Subscription(
            url, queues, worker_id, settings.queue_type, intake.note, intake.wake, observe
        )
        companions.append(intake.subscription.run())
    slots = settings.slots
    effects = Effects(database, slots, handlers.engine)
    attempts = Attempts(
        handlers.registrations, effects, contents, worker_id, slots, observe, intake.slot_freed
    )
    census = Census(
        DedicatedConnection(database, "census"), worker_id, attempts, slots, queues, observe
    )
    companions.append(census.run())
    return Worker(
        intake, claims, attempts, shutdown, observe, grace=settings.grace, companions=companions
    )


async def _cared_for(caretaker: Caretaker) -> None:
    try:
        await caretaker.run()
    finally:
        await caretaker.close()
