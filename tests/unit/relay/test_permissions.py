"""The rights of RabbitMQ's users as rabbitmqctl takes them."""

import re
import shlex

from typer.testing import CliRunner

from taskbell.relay import permissions
from taskbell.shared.cli.app import build
from taskbell.shared.topology import EXCHANGE, broker_queue


def test_the_lines_are_a_shells_and_name_every_user() -> None:
    result = CliRunner().invoke(build(), ["broker", "permissions", "--vhost", "it's mine"])
    lines = [shlex.split(line, comments=True) for line in result.stdout.splitlines()]
    rights = {line[4]: line[5:] for line in lines if line[1] == "set_permissions"}

    assert lines[0] == ["rabbitmqctl", "add_vhost", "it's mine"]
    assert rights["taskbell-relay"] == ["^$", r"^taskbell\.announce$", "^$"]
    assert rights["taskbell-consumer"] == ["^$", "^$", r"^taskbell\.q\..*"]
    assert set(rights) == {user.name for user in permissions.USERS}
    assert ["rabbitmqctl", "set_user_tags", "taskbell-monitor", "monitoring"] in lines


def test_the_relay_writes_to_one_exchange_and_the_consumer_reads_our_queues() -> None:
    assert re.search(permissions.RELAY.write, EXCHANGE)
    assert not re.search(permissions.RELAY.write, f"{EXCHANGE}.dead")
    assert not re.search(permissions.RELAY.write, "amq.default")
    assert re.search(permissions.CONSUMER.read, broker_queue("a/b").name)
    assert not re.search(permissions.CONSUMER.read, "another.taskbell.q.mail")
