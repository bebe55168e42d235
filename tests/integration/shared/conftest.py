"""Fixtures of the operators' tests."""

from collections.abc import AsyncGenerator

import pytest

from support.hands import Hands, hands
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
