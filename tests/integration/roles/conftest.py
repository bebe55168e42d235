"""Fixtures of the tests of least privilege."""

from collections.abc import Iterator, Mapping

import pytest

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
