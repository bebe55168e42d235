"""Fixtures of the tests of least privilege."""

from collections.abc import Iterator, Mapping
from uuid import uuid4

import pytest

from services import Postgres
from support.users import users_of_roles


@pytest.fixture(scope="module")
def lasting_users(lasting_database_url: str) -> Iterator[Mapping[str, str]]:
    """The way to one database as each role's user."""
    with users_of_roles(lasting_database_url) as urls:
        yield urls


@pytest.fixture
def users(database_url: str) -> Iterator[Mapping[str, str]]:
    """The same, for a test that changes the database."""
    with users_of_roles(database_url) as urls:
        yield urls


@pytest.fixture
def empty_database_url(postgres_server: Postgres) -> Iterator[str]:
    """A database without taskbell's schema."""
    name = f"taskbell_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)
