"""``taskbell broker apply``: RabbitMQ as taskbell needs it, and a report of what was done."""

import asyncio

import aio_pika
import pytest
import typer
from typer.testing import CliRunner, Result

from support.factories import make_tasks
from support.rabbitmq import Vhost
from taskbell.relay.command import register


def _apply(
    monkeypatch: pytest.MonkeyPatch, database_url: str, amqp_url: str, *arguments: str
) -> Result:
    monkeypatch.setenv("TASKBELL_DATABASE_URL", database_url)
    monkeypatch.setenv("TASKBELL_AMQP_URL", amqp_url)
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["broker", "apply", *arguments])


def test_it_declares_what_is_named_and_what_the_database_knows(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tasks(database_url, queue="waiting")

    first = _apply(monkeypatch, database_url, vhost.url, "mail")
    second = _apply(monkeypatch, database_url, vhost.url, "mail")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.output == second.output
    assert first.output.splitlines() == [
        "exchange taskbell.announce: ready",
        "queue taskbell.q.mail: ready",
        "queue taskbell.q.waiting: ready",
    ]
    queues = vhost.queues()
    assert sorted(queues) == ["taskbell.q.mail", "taskbell.q.waiting"]
    assert queues["taskbell.q.mail"].durable
    assert queues["taskbell.q.mail"].arguments["x-max-priority"] == 9


def test_it_bounds_the_queues_by_a_policy(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = vhost.server.management_address
    assert address is not None
    call = ("mail", "--management-url", address)

    first = _apply(monkeypatch, database_url, vhost.url, *call)
    second = _apply(monkeypatch, database_url, vhost.url, *call)

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "policy taskbell: set\n" in first.output
    assert "policy taskbell: already as it should be\n" in second.output
    policy = vhost.server.management.request("GET", "policies", vhost.name, "taskbell")
    assert policy["pattern"] == r"^taskbell\.q\."
    assert policy["definition"] == {
        "max-length": 50_000,
        "overflow": "reject-publish",
        "message-ttl": 1_800_000,
    }


def test_a_policy_that_was_changed_is_set_anew(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = vhost.server.management_address
    assert address is not None
    changed = {"pattern": "x", "definition": {"max-length": 1}, "apply-to": "queues"}
    vhost.server.management.request("PUT", "policies", vhost.name, "taskbell", body=changed)

    result = _apply(monkeypatch, database_url, vhost.url, "--management-url", address)

    assert result.exit_code == 0
    assert "policy taskbell: set anew" in result.output


def test_another_policy_in_force_is_reported(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = vhost.server.management_address
    assert address is not None
    other = {
        "pattern": ".*",
        "definition": {"max-length": 1},
        "apply-to": "queues",
        "priority": 9,
    }
    vhost.server.management.request("PUT", "policies", vhost.name, "other", body=other)

    result = _apply(monkeypatch, database_url, vhost.url, "mail", "--management-url", address)

    assert result.exit_code == 1
    assert "policy other is in force instead of taskbell" in result.output


async def _declare_otherwise(url: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        await channel.declare_queue("taskbell.q.mail", durable=True)


def test_a_queue_that_differs_is_named_with_the_argument(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_declare_otherwise(vhost.url))

    result = _apply(monkeypatch, database_url, vhost.url, "mail", "other")

    assert result.exit_code == 1
    assert "queue taskbell.q.mail: exists with other arguments: " in result.output
    assert "x-max-priority" in result.output
    assert "queue taskbell.q.other: ready" in result.output


def test_a_name_that_rabbitmq_cannot_carry_is_named(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _apply(monkeypatch, database_url, vhost.url, "año", "other")

    assert result.exit_code == 1
    assert "queue año: RabbitMQ's client cannot send this name" in result.output
    assert "queue taskbell.q.other: ready" in result.output


def test_without_rights_it_says_what_is_missing(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = vhost.add_user("nobody", configure="^$", write="^$", read="^$")

    result = _apply(monkeypatch, database_url, url, "mail")

    assert result.exit_code == 1
    assert "exchange taskbell.announce: does not exist" in result.output


@pytest.mark.parametrize(
    ("amqp_url", "arguments", "sentence"),
    [
        ("amqp://guest:hush@127.0.0.1:1", [], "AMQPConnectionError"),
        (None, ["--management-url", "http://user:hush@127.0.0.1:1"], "cannot be asked"),
    ],
)
def test_what_cannot_be_reached_is_one_line_without_a_password(
    database_url: str,
    vhost: Vhost,
    monkeypatch: pytest.MonkeyPatch,
    amqp_url: str | None,
    arguments: list[str],
    sentence: str,
) -> None:
    result = _apply(monkeypatch, database_url, amqp_url or vhost.url, *arguments)

    assert result.exit_code == 1
    assert sentence in result.output
    assert "hush" not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "url", ["ftp://user:hush@127.0.0.1:1", "http://user:hu/sh@127.0.0.1:1", "hush"]
)
def test_a_management_url_that_is_none_is_one_line_without_any_part_of_it(
    database_url: str, vhost: Vhost, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    result = _apply(monkeypatch, database_url, vhost.url, "--management-url", url)

    assert result.exit_code == 2
    assert result.stderr.startswith("TASKBELL_MANAGEMENT_URL: ")
    assert len(result.stderr.splitlines()) == 1
    assert "hu" not in result.output
