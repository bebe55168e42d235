"""Fixtures for Postgres: one server per test run, one fresh migrated database per test.

The server is TASKBELL_TEST_DATABASE_URL's, or one that `services` finds or starts (with binaries
from TASKBELL_TEST_POSTGRES_BIN, if set). A run whose tests need none starts none.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from services import Postgres, ServiceError, open_postgres
from services.lending import Description, Lender, borrow

_LENDER: Final = pytest.StashKey[Lender]()
_ADDRESS: Final = "taskbell_postgres"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_LENDER] = Lender(_open_shared)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist where its controller lends the server."""
    node.workerinput[_ADDRESS] = node.config.stash[_LENDER].address()


def pytest_unconfigure(config: pytest.Config) -> None:
    lender = config.stash.get(_LENDER, None)
    if lender is not None:
        lender.close()


@pytest.fixture(scope="session")
def _shared_postgres(pytestconfig: pytest.Config) -> Description:
    """The run's server: its `url` and the name of its migrated `template` database."""
    lender = pytestconfig.stash.get(_LENDER, None)
    try:
        if lender is not None:
            return lender.describe()
        return borrow(vars(pytestconfig)["workerinput"][_ADDRESS])
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def postgres_server(_shared_postgres: Description) -> Postgres:
    """The run's server, which other tests use at the same time: do not restart it."""
    return Postgres(_shared_postgres["url"])


@pytest.fixture
def database_url(postgres_server: Postgres, _shared_postgres: Description) -> Iterator[str]:
    """A fresh database with taskbell's schema, `postgresql+psycopg://…`, dropped afterwards."""
    yield from _fresh_database(postgres_server, _shared_postgres["template"])


@pytest.fixture(scope="module")
def lasting_database_url(postgres_server: Postgres, _shared_postgres: Description) -> Iterator[str]:
    """The same, but one for all tests of a module."""
    yield from _fresh_database(postgres_server, _shared_postgres["template"])


@pytest.fixture
def empty_database_url(postgres_server: Postgres) -> Iterator[str]:
    """A database without taskbell's schema, dropped afterwards."""
    yield from _fresh_database(postgres_server, None)


@pytest.fixture(scope="session")
def _spare_postgres() -> Iterator[tuple[Postgres, str]]:
    """A server of this process and its template; tests get it one after the other."""
    try:
        server = _open(None, durable=True)
    except ServiceError as error:
        pytest.fail(str(error), pytrace=False)
    with server:
        yield server, _migrate_template(server)


@pytest.fixture
def private_postgres(_spare_postgres: tuple[Postgres, str]) -> Postgres:
    """A durable server that no other test uses meanwhile, so it may be crashed."""
    return _spare_postgres[0]


@pytest.fixture
def private_database_url(_spare_postgres: tuple[Postgres, str]) -> Iterator[str]:
    """A fresh database with taskbell's schema on `private_postgres`, dropped afterwards."""
    yield from _fresh_database(*_spare_postgres)


def _open(url: str | None, *, durable: bool) -> Postgres:
    binaries = os.environ.get("TASKBELL_TEST_POSTGRES_BIN")
    return open_postgres(url, durable=durable, binaries=Path(binaries) if binaries else None)


def _open_shared() -> tuple[Description, Callable[[], None]]:
    server = _open(os.environ.get("TASKBELL_TEST_DATABASE_URL"), durable=False)
    try:
        template = _migrate_template(server)
    except BaseException:
        server.stop()
        raise

    def close() -> None:
        # On a server from outside nothing of ours stays.
        server.drop_database(template)
        server.stop()

    return {"url": server.url, "template": template}, close


def _migrate_template(server: Postgres) -> str:
    from taskbell.shared import migration  # noqa: PLC0415 - unit tests need not load Alembic

    name = f"taskbell_template_{uuid4().hex}"
    migration.upgrade(server.create_database(name))
    return name


def _fresh_database(server: Postgres, template: str | None) -> Iterator[str]:
    name = f"taskbell_{uuid4().hex}"
    yield server.create_database(name, template)
    server.drop_database(name)
