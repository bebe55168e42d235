"""Fixtures of the tests of the HTTP interface."""

from collections.abc import AsyncGenerator

import pytest

from support.hands import Hands, hands


@pytest.fixture
async def worker(database_url: str) -> AsyncGenerator[Hands]:
    """A worker's hands."""
    async with hands(database_url) as ours:
        yield ours
