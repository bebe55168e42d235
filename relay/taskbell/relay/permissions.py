"""What each of RabbitMQ's users may do: as little as its role needs, as rabbitmqctl takes it.

Producers and the HTTP interface have no user at all: they never speak to the broker.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from taskbell.shared.topology import EXCHANGE, QUEUE_PREFIX

_NOTHING: Final = "^$"
_OURS: Final = rf"^{re.escape('taskbell.')}.*"


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user and its rights: patterns of the names of exchanges and queues."""

    name: str
    configure: str = _NOTHING
    write: str = _NOTHING
    read: str = _NOTHING
    tags: tuple[str, ...] = ()


RELAY: Final = BrokerUser("taskbell-relay", write=f"^{re.escape(EXCHANGE)}$")
"""Publishes announcements; with everything declared beforehand it needs nothing else."""

CONSUMER: Final = BrokerUser("taskbell-consumer", read=f"^{re.escape(QUEUE_PREFIX)}.*")

ADMIN: Final = BrokerUser(
    "taskbell-admin", configure=_OURS, write=_OURS, read=_OURS, tags=("policymaker", "management")
)
"""Of ``taskbell broker apply``."""

MONITOR: Final = BrokerUser("taskbell-monitor", tags=("monitoring",))

USERS: Final = (RELAY, CONSUMER, ADMIN, MONITOR)


def commands(vhost: str) -> Iterator[str]:
    """Lines for a shell on the broker's host. A user that exists keeps its password."""
    yield shlex.join(["rabbitmqctl", "add_vhost", vhost])
    for user in USERS:
        yield f"rabbitmqctl add_user {user.name}  # asks for the password; once"
        rights = (user.configure, user.write, user.read)
        yield shlex.join(["rabbitmqctl", "set_permissions", "-p", vhost, user.name, *rights])
        if user.tags:
            yield shlex.join(["rabbitmqctl", "set_user_tags", user.name, *user.tags])
