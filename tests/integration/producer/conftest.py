"""Fixtures of the producer's tests: a desk of every kind, and an eye on what was committed."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest

from integration.producer.desks import KINDS, Desk, Rows, open_desk
from taskbell.shared.database import conninfo


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def desk(kind: str, database_url: str) -> AsyncIterator[Desk]:
    async with open_desk(kind, database_url) as opened:
        yield opened


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Another connection; every look of it is a transaction of its own."""
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        yield connection


@pytest.fixture
def committed(observer: psycopg.Connection[Any]) -> Callable[[str], Rows]:
    """What others see, as rows of a question."""
    return lambda question: observer.execute(question.encode()).fetchall()
