"""The listener that turns events into log lines; the only place that writes any."""

import dataclasses
import logging
import re
import sys
from typing import Literal, cast

import structlog

from taskbell.shared.events import Event, Observer

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
# They report every reconnect with tracebacks; our own events say it once.
_NOISY = ("aio_pika", "aiormq", "psycopg", "asyncio", "uvicorn")


def event_name(event: type[Event]) -> str:
    """Name an event class as log lines do: ``TaskSettled`` is ``task_settled``."""
    return _WORD.sub("_", event.__name__).lower()


def log_to_stderr(level: str, form: Literal["auto", "json", "console"]) -> Observer:
    """Set up logging for this process and return the observer that writes to it."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    threshold = logging.getLevelNamesMapping()[level.upper()]
    renderer = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    logger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
    )
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)

    def observe(event: Event) -> None:
        if event.level >= threshold:
            fields = {
                field.name: _plain(getattr(event, field.name))
                for field in dataclasses.fields(event)
            }
            getattr(logger, event.level.name.lower())(event_name(type(event)), **fields)

    return observe


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(each) for each in cast("tuple[object, ...]", value)]
    return value if isinstance(value, str | int | float | None) else str(value)
