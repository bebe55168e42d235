"""Fixtures of all integration tests: a worker's hands, an operator's connection, reports."""

from collections.abc import AsyncGenerator

import pytest

from support.hands import Hands, hands
from support.workers import Reports
from taskbell.shared.database import DedicatedConnection


@pytest.fixture
async def worker(database_url: str) -> AsyncGenerator[Hands]:
    """A worker's hands."""
    async with hands(database_url) as ours:
        yield ours


@pytest.fixture
async def connection(database_url: str) -> AsyncGenerator[DedicatedConnection]:
    """The operator's connection."""
    async with hands(database_url, "operator") as ours:
        yield ours.connection


@pytest.fixture
async def reports() -> Reports:
    """What a worker in this process reports."""
    return Reports()
