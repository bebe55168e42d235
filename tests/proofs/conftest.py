"""What every proof has: the roles' direct way to the database, a table of effects, the referee."""

import pytest

from support.fleet import Fleet
from support.practice import furnish
from support.referee import Referee


@pytest.fixture
def roles_url(database_url: str) -> str:
    """No pooler: proofs tell connections apart by their names."""
    return database_url


@pytest.fixture
def referee(fleet: Fleet) -> Referee:
    """The referee of the fleet's database, where the effects can be counted, too."""
    furnish(fleet.database_url)
    return Referee(fleet.database_url)
