"""A queue of RabbitMQ as its management API tells of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue as the broker sees it; messages are counted at once, consumers within a second."""

    name: str
    type: str
    durable: bool
    arguments: Mapping[str, Any]
    ready: int
    unacknowledged: int
    consumers: int


def state_of(queue: Mapping[str, Any], consumers: int) -> QueueState:
    """Read what the management API says of a queue."""
    return QueueState(
        name=queue["name"],
        type=queue.get("type", "classic"),
        durable=queue["durable"],
        arguments=queue["arguments"],
        ready=queue.get("messages_ready", 0),
        unacknowledged=queue.get("messages_unacknowledged", 0),
        consumers=consumers,
    )
