"""The relay's commands and its composition root: the only place that reads the environment."""

import asyncio
import signal
from collections.abc import Awaitable
from typing import Annotated

import typer
from pydantic import ValidationError

from taskbell.relay.application import apply_bounds, apply_topology, known_queues
from taskbell.relay.permissions import commands
from taskbell.relay.policy import Management, PolicyRefused
from taskbell.relay.publisher import Publisher
from taskbell.relay.relay import Relay
from taskbell.relay.settings import RelaySettings
from taskbell.shared.amqp import BrokerAway
from taskbell.shared.cli.ending import fail, told
from taskbell.shared.doorbell import Doorbell
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer, RoleStarted, RoleStopped
from taskbell.shared.ids import new_worker_id
from taskbell.shared.logs import log_to_stderr
from taskbell.shared.loop import end_with, spare_the_collector
from taskbell.shared.maintenance.caretaker import Caretaker
from taskbell.shared.readiness import found_schema
from taskbell.shared.settings import sentence
from taskbell.shared.storage import Storage

_GRACE_SECONDS = 8.0
_NO_BROKER = "TASKBELL_AMQP_URL is not set; without RabbitMQ no relay is needed: consumers poll"


class NotMigrated(Exception):
    """The database is there and its schema is not the one this code needs."""


def register(app: typer.Typer) -> None:
    app.command("relay")(relay)
    broker = typer.Typer(help="RabbitMQ's side of taskbell.", no_args_is_help=True)
    broker.command("apply")(apply)
    broker.command("permissions")(permissions)
    app.add_typer(broker, name="broker")


def relay() -> None:
    """Announce committed tasks to RabbitMQ, until SIGTERM; run as many as you like."""
    settings = _settings()
    url = settings.broker_url
    if url is None:
        fail(_NO_BROKER, code=2)
    try:
        storage = settings.storage
    except ValueError as error:
        fail(str(error), code=2)
    observe = log_to_stderr(settings.log_level, settings.log_format)
    spare_the_collector()
    end_with(_code_of(serve(settings, url, observe, storage)))


async def _code_of(serving: Awaitable[None]) -> int:
    try:
        await serving
    except NotMigrated as error:
        return told(f"{error}; run taskbell migrate")
    except TimeoutError:
        return told(f"could not finish within {_GRACE_SECONDS:.0f} s and was stopped")
    return 0


async def serve(
    settings: RelaySettings, url: str, observe: Observer, storage: Storage | None = None
) -> None:
    """Build everything and run it until a signal; raises ``NotMigrated``, ``TimeoutError``."""
    name = new_worker_id("relay")
    database = settings.database
    doorbell = Doorbell(database, name, observe)
    publisher = Publisher(
        url,
        observe,
        declare=settings.relay_declare == "auto",
        queue_type=settings.queue_type,
        deadline=settings.relay_publish_deadline,
        in_flight=settings.relay_in_flight,
    )
    announcer = Relay(
        database,
        publisher,
        doorbell,
        observe,
        window=settings.relay_window,
        batch=settings.relay_batch,
    )
    caretaker = Caretaker(database, observe, keep_days=settings.retention_days, storage=storage)
    async with asyncio.timeout(None) as limit:
        stopping = _stop_on_signals(announcer, limit)
        state = await found_schema(database, observe, stopping)
        if state is not None and not state.ready:
            raise NotMigrated(str(state))
        if stopping.is_set():
            return
        observe(RoleStarted("relay", name, ()))
        async with asyncio.TaskGroup() as background:
            services = [
                background.create_task(publisher.run(doorbell.wake), name="publisher"),
                background.create_task(caretaker.run(), name="caretaker"),
                background.create_task(doorbell.listen(), name="doorbell"),
            ]
            await announcer.run()
            for service in services:
                service.cancel()
        await caretaker.close()
    observe(RoleStopped("relay", name))


def _stop_on_signals(announcer: Relay, limit: asyncio.Timeout) -> asyncio.Event:
    """On the first signal end in good order, within the grace; on a second one at once."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        announcer.stop()
        limit.reschedule(loop.time() + _GRACE_SECONDS)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            # By the system and not by us: whatever hangs cannot get in its way.
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopping


Queues = Annotated[
    list[str] | None, typer.Argument(help="Queues to declare, besides those the database knows.")
]
ManagementUrl = Annotated[
    str | None,
    typer.Option(help="RabbitMQ's management API, http(s)://user:password@host:port: sets bounds."),
]


def apply(queues: Queues = None, *, management_url: ManagementUrl = None) -> None:
    """Declare the exchange and queues in RabbitMQ and bound them; may be repeated."""
    settings = _settings(management_url)
    url = settings.broker_url
    if url is None:
        fail("TASKBELL_AMQP_URL is not set", code=2)
    try:
        wanted = sorted({*(queues or ()), *asyncio.run(known_queues(settings.database))})
        ready = asyncio.run(apply_topology(url, wanted, settings.queue_type, typer.echo))
        if settings.management_url is not None:
            management = Management(settings.management_url.get_secret_value(), url)
            ready = apply_bounds(management, wanted, typer.echo) and ready
    except (DatabaseAway, BrokerAway, PolicyRefused) as error:
        fail(str(error))
    if not ready:
        raise typer.Exit(1)


def permissions(
    *, vhost: Annotated[str, typer.Option(help="The virtual host.")] = "taskbell"
) -> None:
    """Print rabbitmqctl's lines for users with least privilege; changes nothing."""
    for line in commands(vhost):
        typer.echo(line)


def _settings(management_url: str | None = None) -> RelaySettings:
    try:
        return RelaySettings.read(management_url=management_url)
    except ValidationError as error:
        fail(sentence(error), code=2)
