"""SIGKILL for any process, an immediate stop for Postgres: every task still completes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services import Postgres, RabbitMQ
from support.fleet import Fleet, open_fleet
from support.rabbitmq import Vhost

COUNT = 500

pytestmark = pytest.mark.timeout(600)


def half_done(fleet: Fleet) -> None:
    """A relay and two consumers in the middle of their work."""
    fleet.start_relay()
    fleet.start_consumer("consumer-1")
    fleet.start_consumer("consumer-2")
    fleet.enqueue(COUNT, seconds=0.05)
    fleet.wait_for_runs(COUNT // 4)


def test_a_killed_relay_loses_nothing(fleet: Fleet) -> None:
    half_done(fleet)

    fleet.kill("relay")
    fleet.enqueue(COUNT)
    fleet.start_relay("successor")

    fleet.wait_for_completion(2 * COUNT)
    assert fleet.runs() == 2 * COUNT


def test_a_killed_consumer_loses_nothing(fleet: Fleet) -> None:
    half_done(fleet)

    pid = fleet.kill("consumer-1")
    held = fleet.ask(f"SELECT count(*) FROM taskbell.lease WHERE worker_id LIKE '%/{pid}/%'")

    fleet.wait_for_completion(COUNT)
    # What it held was begun once more elsewhere, and nothing else was.
    assert fleet.ask("SELECT count(DISTINCT task_id) FROM acceptance.run") == COUNT
    assert 0 < held == fleet.ask("SELECT count(*) FROM acceptance.run WHERE attempt > 1")


@pytest.fixture
def on_private_rabbitmq(tmp_path: Path, database_url: str, private_vhost: Vhost) -> Iterator[Fleet]:
    """A fleet whose broker may be killed."""
    yield from open_fleet(tmp_path, database_url, private_vhost.url)


def test_a_killed_broker_loses_nothing(
    on_private_rabbitmq: Fleet, private_rabbitmq: RabbitMQ
) -> None:
    fleet = on_private_rabbitmq
    half_done(fleet)

    private_rabbitmq.kill()
    fleet.enqueue(COUNT)
    private_rabbitmq.start()
    fleet.enqueue(COUNT)

    fleet.wait_for_completion(3 * COUNT)
    assert fleet.runs() == 3 * COUNT


@pytest.fixture
def on_private_postgres(tmp_path: Path, private_database_url: str, vhost: Vhost) -> Iterator[Fleet]:
    """A fleet whose database may crash."""
    yield from open_fleet(tmp_path, private_database_url, vhost.url)


def test_a_crashed_postgres_loses_nothing(
    on_private_postgres: Fleet, private_postgres: Postgres
) -> None:
    fleet = on_private_postgres
    half_done(fleet)

    private_postgres.restart_immediately()
    fleet.enqueue(COUNT)

    fleet.wait_for_completion(2 * COUNT)
    assert fleet.ask("SELECT count(DISTINCT task_id) FROM acceptance.run") == 2 * COUNT
    assert fleet.ask("SELECT count(*) FROM taskbell.dead_letter") == 0
