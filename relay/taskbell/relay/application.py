"""``taskbell broker apply``: make RabbitMQ what taskbell needs, and say what was done.

For whoever may declare; the roles then need no such right. Idempotent.
"""

from collections.abc import Callable, Sequence

from taskbell.relay import broker
from taskbell.relay.broker import Topology
from taskbell.relay.policy import NAME, Management
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.statements import outbox
from taskbell.shared.statements import queue as queues
from taskbell.shared.topology import QueueType, broker_queue

_DEADLINE = 10.0


async def known_queues(database: Database) -> list[str]:
    """Return the queues that the database knows or where tasks wait; raises ``DatabaseAway``."""
    connection = DedicatedConnection(database, "broker apply")
    try:
        rows = await connection.run(queues.KNOWN) + await connection.run(outbox.WAITING_QUEUES)
    finally:
        await connection.close()
    return sorted({row.queue for row in rows})


async def apply_topology(
    url: str, queues: Sequence[str], queue_type: QueueType, say: Callable[[str], None]
) -> bool:
    """Declare exchange and queues; returns whether all is as it should be.

    Raises ``BrokerAway``.
    """
    connection = await broker.connect(url, "broker-apply", _DEADLINE)
    try:
        topology = Topology(connection, declare=True, queue_type=queue_type, deadline=_DEADLINE)
        found = await topology.exchange()
        say(f"exchange {found.name}: {found}")
        ready = found.ready
        for queue in queues:
            ready = await _apply_queue(topology, queue, say) and ready
    finally:
        await broker.close(connection)
    return ready


async def _apply_queue(topology: Topology, queue: str, say: Callable[[str], None]) -> bool:
    try:
        found = await topology.queue(queue)
    except ValueError as error:
        say(f"queue {queue}: RabbitMQ's client cannot send this name: {error}")
        return False
    say(f"queue {found.name}: {found}")
    return found.ready


def apply_bounds(management: Management, queues: Sequence[str], say: Callable[[str], None]) -> bool:
    """Set the policy; returns whether it is the one in force for every queue."""
    say(f"policy {NAME}: {management.apply_policy()}")
    in_force = True
    for queue in queues:
        name = broker_queue(queue).name
        for stronger in management.stronger_policies(name):
            say(f"queue {name}: policy {stronger} is in force instead of {NAME}")
            in_force = False
    return in_force
