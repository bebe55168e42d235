"""Fixtures of the relay's tests."""

import pytest

from integration.relay.ear import Recorder


@pytest.fixture
def observe() -> Recorder:
    return Recorder()
