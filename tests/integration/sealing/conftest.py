"""Fixtures for tests of sealed and stored content."""

import pytest

from support.workers import Reports


@pytest.fixture
async def reports() -> Reports:
    return Reports()
