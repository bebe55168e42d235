"""How every role meets RabbitMQ: what it says of itself, and what a broken connection becomes.

The client library itself stays with the roles.
"""

import asyncio
import platform
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from taskbell.shared.errors import TaskbellError
from taskbell.shared.interruption import asked_to_stop

_HEARTBEAT_SECONDS = 15


class BrokerAway(TaskbellError):
    """RabbitMQ could not be asked; what was sent may or may not have arrived."""


@contextmanager
def broken_is_away(broken: tuple[type[Exception], ...]) -> Generator[None]:
    """Turn every way in which a connection breaks into ``BrokerAway``.

    It raises one of those exceptions, or cancels a call that nobody cancelled. A cancellation that
    somebody asked for comes through, even if the call ended well despite it.
    """
    try:
        yield
    except broken as error:
        raise BrokerAway(f"{type(error).__name__}: {error}".removesuffix(": ")) from error
    except asyncio.CancelledError:
        if asked_to_stop():
            raise
        raise BrokerAway("the connection broke and the call was cancelled") from None
    else:
        if asked_to_stop():  # the client library swallowed the cancellation
            raise asyncio.CancelledError


def with_heartbeat(url: str) -> str:
    """Return the URL with our pace of heartbeats, unless it has one of its own."""
    parts = urlsplit(url)
    if "heartbeat" in parse_qs(parts.query):
        return url
    pace = f"heartbeat={_HEARTBEAT_SECONDS}"
    return urlunsplit(parts._replace(query=f"{parts.query}&{pace}" if parts.query else pace))


def introduction(role: str, name: str) -> dict[str, Any]:
    """Return a client's properties, which are pleasant reading in the management UI."""
    return {
        "connection_name": f"taskbell-{name}",
        "product": f"taskbell-{role}",
        "version": version("taskbell-shared"),
        "platform": f"Python {platform.python_version()}",
    }
