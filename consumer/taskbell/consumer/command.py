"""The composition root: ``taskbell consumer module:app``."""

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Annotated

import pydantic
import typer

from taskbell.consumer.assembly import assemble
from taskbell.consumer.errors import InvalidHandler
from taskbell.consumer.registry import Consumer
from taskbell.consumer.settings import ConsumerSettings
from taskbell.consumer.shutdown import Shutdown
from taskbell.shared.cli.ending import fail
from taskbell.shared.events import Observer, RoleStarted, RoleStopped
from taskbell.shared.ids import new_worker_id
from taskbell.shared.logs import log_to_stderr
from taskbell.shared.loop import end_with, spare_the_collector
from taskbell.shared.readiness import found_schema
from taskbell.shared.settings import sentence

EXIT_OK = 0
EXIT_NOT_READY = 1
"""The schema is not what it should be, or the worker crashed: the log says why."""
EXIT_USAGE = 2
EXIT_ABANDONED = 3
"""Stopped before everything was settled or released: what was left runs elsewhere once its lease
expired."""

_HURRIED_SECONDS = 3.0


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
    try:
        _ = settings.seals, settings.storage  # whether they can be made at all
    except ValueError as error:  # tells no value
        fail(str(error), code=EXIT_USAGE)
    observe = log_to_stderr(settings.log_level, settings.log_format)
    spare_the_collector()
    end_with(run(handlers, settings, observe))


def _load(application: str) -> Consumer:
    module, _, name = application.partition(":")
    if not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
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
    shutdown = Shutdown()
    shutdown.listen()
    work = asyncio.ensure_future(_work(handlers, settings, shutdown, observe))
    hurry = asyncio.ensure_future(_hurried(shutdown))
    await asyncio.wait({work, hurry}, return_when=asyncio.FIRST_COMPLETED)
    return work.result() if work.done() else EXIT_ABANDONED


async def _hurried(shutdown: Shutdown) -> None:
    """Return a moment after a worker that was told twice should have ended."""
    await shutdown.at_once.wait()
    await asyncio.sleep(_HURRIED_SECONDS)


async def _work(
    handlers: Consumer, settings: ConsumerSettings, shutdown: Shutdown, observe: Observer
) -> int:
    state = await found_schema(settings.database, observe, shutdown.asked)
    if state is None:
        return EXIT_OK
    if not state.ready:
        sys.stderr.write(f"{state}: run `taskbell migrate`\n")
        return EXIT_NOT_READY
    worker_id = new_worker_id("consumer")
    worker = assemble(handlers, settings, worker_id, shutdown, observe)
    observe(RoleStarted("consumer", worker_id, tuple(settings.queues or handlers.queues)))
    in_good_order = await worker.run()
    observe(RoleStopped("consumer", worker_id))
    return EXIT_OK if in_good_order else EXIT_ABANDONED
