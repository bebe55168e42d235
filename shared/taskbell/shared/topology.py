"""RabbitMQ's entities as data: what they are called and how they are declared."""

from dataclasses import dataclass
from enum import StrEnum

EXCHANGE = "taskbell.announce"
"""Direct and durable; the routing key is the queue's plain name."""

QUEUE_PREFIX = "taskbell.q."


class QueueType(StrEnum):
    """Which kind of RabbitMQ queue holds announcements."""

    CLASSIC = "classic"
    """A classic priority queue: nothing lives in it, so it need not be replicated."""

    QUORUM = "quorum"
    """For brokers whose operators allow nothing else; it knows two priorities at most."""


@dataclass(frozen=True, slots=True)
class BrokerQueue:
    """One RabbitMQ queue, as it must be declared."""

    name: str
    routing_key: str
    arguments: dict[str, str | int]


def broker_queue(queue: str, queue_type: QueueType = QueueType.CLASSIC) -> BrokerQueue:
    """Describe the RabbitMQ queue of a taskbell queue. Bounds are a policy's, not an argument's."""
    arguments: dict[str, str | int] = {"x-queue-type": queue_type.value}
    if queue_type is QueueType.CLASSIC:
        arguments["x-max-priority"] = 9
    return BrokerQueue(f"{QUEUE_PREFIX}{queue}", queue, arguments)
