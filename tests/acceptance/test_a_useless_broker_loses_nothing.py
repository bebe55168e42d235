"""RabbitMQ holds nothing: purged, robbed of its queues or never there, all tasks still complete."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.fleet import Fleet, open_fleet
from support.rabbitmq import Vhost

COUNT = 400


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mishap", [Vhost.purge, Vhost.delete_queues, Vhost.close_connections])
def test_a_broker_that_forgets_halfway_loses_nothing(
    fleet: Fleet, vhost: Vhost, mishap: Callable[[Vhost], object]
) -> None:
    fleet.start_relay()
    fleet.start_consumer("consumer-1")
    fleet.start_consumer("consumer-2")
    fleet.enqueue(COUNT, seconds=0.05)
    fleet.wait_for_runs(COUNT // 3)

    mishap(vhost)
    fleet.enqueue(COUNT)

    fleet.wait_for_completion(2 * COUNT)
    assert fleet.runs() == 2 * COUNT


@pytest.fixture
def brokerless(tmp_path: Path, database_url: str, roles_url: str) -> Iterator[Fleet]:
    """Consumers that were told of no broker."""
    yield from open_fleet(tmp_path, database_url, None, roles_url)


@pytest.mark.timeout(600)
def test_without_a_broker_consumers_find_the_tasks_themselves(brokerless: Fleet) -> None:
    brokerless.start_consumer("consumer-1")
    brokerless.start_consumer("consumer-2")

    brokerless.enqueue(COUNT)

    brokerless.wait_for_completion(COUNT)
    assert brokerless.runs() == COUNT


@pytest.fixture
def deserted(tmp_path: Path, database_url: str, roles_url: str) -> Iterator[Fleet]:
    """Roles that were told of a broker which is not there."""
    yield from open_fleet(tmp_path, database_url, "amqp://127.0.0.1:9/nobody", roles_url)


@pytest.mark.timeout(600)
def test_a_broker_that_was_never_there_loses_nothing(deserted: Fleet) -> None:
    deserted.start_relay()
    deserted.start_consumer()

    deserted.enqueue(COUNT)

    deserted.wait_for_completion(COUNT)
    assert deserted.runs() == COUNT
