"""Fixtures for RabbitMQ: one node per test run, one fresh vhost per test.

The node is TASKBELL_TEST_AMQP_URL's (its management API: TASKBELL_TEST_AMQP_ADMIN_URL), or one that
`services` finds or starts, which takes about ten seconds. A run whose tests need none starts none.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import pytest

from services import QueueState, RabbitMQ, ServiceError, open_rabbitmq
from services.lending import Description, Lender, borrow

_LENDER: Final = pytest.StashKey[Lender]()
_ADDRESS: Final = "taskbell_rabbitmq"


class Vhost:
    """A virtual host of a node and the administrator's verbs bound to it."""

    def __init__(self, server: RabbitMQ, name: str) -> None:
        self.server = server
        self.name = name
        self.url = server.create_vhost(name)
        """`amqp://…` as the administrator, who may do everything in it."""
        self._users: list[str] = []

    def queues(self) -> dict[str, QueueState]:
        """Its queues by name; their counts may be a quarter of a second old."""
        return self.server.queues(self.name)

    def purge(self) -> None:
        self.server.purge(self.name)

    def delete_queues(self) -> None:
        self.server.delete_queues(self.name)

    def close_connections(self, *, expected: int = 1) -> int:
        """How many connections the broker has closed; waits until `expected` are open."""
        return self.server.close_connections(self.name, expected=expected)

    def add_user(self, name: str, *, configure: str, write: str, read: str) -> str:
        """The vhost's URL as a new user with these permissions, who goes with the vhost."""
        user = f"{name}-{self.name}"
        self._users.append(user)
        password = uuid4().hex
        return self.server.add_user(
            user, password, self.name, configure=configure, write=write, read=read
        )

    def drop(self) -> None:
        self.server.drop_vhost(self.name)
        for user in self._users:
            self.server.delete_user(user)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_LENDER] = Lender(_open_shared)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist where its controller lends the node."""
    node.workerinput[_ADDRESS] = node.config.stash[_LENDER].address()


def pytest_unconfigure(config: pytest.Config) -> None:
    lender = config.stash.get(_LENDER, None)
    if lender is not None:
        lender.close()


@pytest.fixture(scope="session")
def rabbitmq_server(pytestconfig: pytest.Config) -> RabbitMQ:
    """The run's node, which other tests use at the same time: no kill, no alarm, only vhosts."""
    lender = pytestconfig.stash.get(_LENDER, None)
    try:
        if lender is not None:
            description = lender.describe()
        else:
            description = borrow(vars(pytestconfig)["workerinput"][_ADDRESS])
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)
    return RabbitMQ(description["url"], description.get("management_url"))


@pytest.fixture
def vhost(rabbitmq_server: RabbitMQ) -> Iterator[Vhost]:
    """A fresh vhost of the run's node, dropped afterwards with all that is in it."""
    yield from _fresh_vhost(rabbitmq_server)


@pytest.fixture(scope="module")
def lasting_vhost(rabbitmq_server: RabbitMQ) -> Iterator[Vhost]:
    """The same, but one for all tests of a module."""
    yield from _fresh_vhost(rabbitmq_server)


@pytest.fixture(scope="session")
def _spare_rabbitmq() -> Iterator[RabbitMQ]:
    """A node of this process; tests get it one after the other."""
    try:
        server = open_rabbitmq()
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with server:
        yield server


@pytest.fixture
def private_rabbitmq(_spare_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """A node that no other test uses meanwhile: it may be killed, started, wiped and alarmed.

    The next test finds it up, without alarm and without vhosts of this one.
    """
    yield _spare_rabbitmq
    _spare_rabbitmq.recover()


@pytest.fixture
def private_vhost(private_rabbitmq: RabbitMQ) -> Vhost:
    """A fresh vhost of `private_rabbitmq`. After a wipe it is gone: create it again by its name."""
    return Vhost(private_rabbitmq, f"taskbell-{uuid4().hex}")


def _fresh_vhost(server: RabbitMQ) -> Iterator[Vhost]:
    fresh = Vhost(server, f"taskbell-{uuid4().hex}")
    yield fresh
    fresh.drop()


def _open_shared() -> tuple[Description, Callable[[], None]]:
    management_url = os.environ.get("TASKBELL_TEST_AMQP_ADMIN_URL")
    server = open_rabbitmq(os.environ.get("TASKBELL_TEST_AMQP_URL"), management_url)
    described = {"url": server.url}
    if server.management_address is not None:
        described["management_url"] = server.management_address
    return described, server.stop
