"""Fixtures of the consumer's tests."""

import pytest

from support.workers import Reports


@pytest.fixture
async def reports() -> Reports:
    return Reports()
