"""The composition root: ``taskbell consumer module:app``."""

import asyncio
import importlib
import os
import sys
from pathlib import Path
from typing import Annotated

import pydantic
import typer

from taskbell.consumer.attempts import Attempts
from taskbell.consumer.census import Census
from taskbell.consumer.errors import InvalidHandler
from taskbell.consumer.intake import Intake
from taskbell.consumer.leases import Claims
from taskbell.consumer.registry import Consumer
from taskbell.consumer.settings import ConsumerSettings
from taskbell.consumer.shutdown import Shutdown
from taskbell.consumer.subscription import Subscription
from taskbell.consumer.worker import Worker
from taskbell.shared.cli.ending import fail
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.doorbell import Doorbell
from taskbell.shared.events import Observer, RoleStarted, RoleStopped
from taskbell.shared.ids import WorkerId, new_worker_id
from taskbell.shared.logs import log_to_stderr
from taskbell.shared.maintenance.caretaker import Caretaker
from taskbell.shared.readiness import found_schema
from taskbell.shared.settings import sentence

EXIT_OK = 0
EXIT_NOT_READY = 1
EXIT_USAGE = 2
EXIT_ABANDONED = 3
"""Stopped before everything was settled or released: what was left runs elsewhere once its lease
expired."""

_DEAF_INTERVAL = 0.2


def register(app: typer.Typer) -> None:
    """Add ``taskbell consumer``."""
    app.command("consumer")(consumer)


def consumer(
    application: Annotated[str, typer.Argument(help="Where the handlers are: module:app")],
    queues: Annotated[
        str | None, typer.Option(help="Comma-separated; default: the handlers'")
    ] = None,
    slots: Annotated[int | None, typer.Option(help="How many handlers run at once")] = None,
) -> None:
    """Claim, run and settle tasks until SIGTERM."""
    try:
        settings = ConsumerSettings.read(queues=queues, slots=slots)
        handlers = _load(application)
    except pydantic.ValidationError as error:
        fail(sentence(error), code=EXIT_USAGE)
    except InvalidHandler as error:
        fail(str(error), code=EXIT_USAGE)
    observe = log_to_stderr(settings.log_level, settings.log_format)
    code = asyncio.run(run(handlers, settings, observe))
    sys.stderr.flush()
    # Not sys.exit: it would wait for handlers in threads that were told to stop and did not.
    os._exit(code)


def _load(application: str) -> Consumer:
    module, separator, name = application.partition(":")
    if not separator:
        raise InvalidHandler(f"{application!r}: write module:app")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidHandler(f"{application!r}: {error}") from error
    if not isinstance(found, Consumer):
        raise InvalidHandler(f"{application!r} is no taskbell.consumer.Consumer")
    if not found.registrations:
        raise InvalidHandler(f"{application!r} has no handlers")
    return found


async def run(handlers: Consumer, settings: ConsumerSettings, observe: Observer) -> int:
    """Run one worker; returns the exit code."""
    database = settings.database
    shutdown = Shutdown()
    shutdown.listen()
    state = await found_schema(database, observe)
    if not state.ready:
        sys.stderr.write(f"{state}: run `taskbell migrate`\n")
        return EXIT_NOT_READY
    worker_id = new_worker_id("consumer")
    worker = assemble(handlers, settings, worker_id, shutdown, observe)
    observe(RoleStarted("consumer", worker_id, tuple(settings.queues or handlers.queues)))
    in_good_order = await worker.run()
    observe(RoleStopped("consumer", worker_id))
    return EXIT_OK if in_good_order else EXIT_ABANDONED


def assemble(
    handlers: Consumer,
    settings: ConsumerSettings,
    worker_id: WorkerId,
    shutdown: Shutdown,
    observe: Observer,
) -> Worker:
    """Build a worker from its parts; needs a running event loop."""
    database, url = settings.database, settings.broker_url
    queues = settings.queues or handlers.queues
    caretaker = Caretaker(database, observe, keep_days=settings.retention_days)
    companions = [caretaker.run()]
    doorbell: Doorbell | None = None
    if url is None:
        doorbell = Doorbell(database, worker_id, observe, deaf_interval=_DEAF_INTERVAL)
        companions.append(doorbell.listen())
    connection = DedicatedConnection(database, "claim")
    claims = Claims(connection, worker_id, handlers.registrations.values())
    intake = Intake(
        claims, connection, queues, observe,
        poll_interval=settings.poll_interval, doorbell=doorbell,
    )  # fmt: skip
    if url is not None:
        intake.subscription = Subscription(
            url, queues, worker_id, settings.queue_type, intake.note, intake.wake, observe
        )
        companions.append(intake.subscription.run())
    attempts = Attempts(
        handlers.registrations, database, worker_id, settings.slots, observe, intake.wake
    )
    census = Census(
        DedicatedConnection(database, "census"), worker_id, attempts, settings.slots, queues
    )
    companions.append(census.run())
    return Worker(
        intake, claims, attempts, shutdown, observe, grace=settings.grace, companions=companions
    )
