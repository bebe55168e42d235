"""What every proof has: processes to start, a table of effects, the referee."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleet import Fleet, open_fleet
from support.practice import furnish
from support.referee import Referee


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Brokerless, which is one process less to start; where RabbitMQ matters a file has its own.

    No pooler: proofs tell connections apart by their names.
    """
    yield from open_fleet(tmp_path, database_url, None)


@pytest.fixture
def referee(fleet: Fleet) -> Referee:
    """The referee of the fleet's database, where the effects can be counted, too."""
    furnish(fleet.database_url)
    return Referee(fleet.database_url)
