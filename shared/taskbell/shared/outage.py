"""An outage is told when it begins and when it ends, however often the way is tried meanwhile."""

import psycopg

from taskbell.shared.database import AWAY
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import DatabaseFound, DatabaseLost, Event, Observer, StatementFailed


def without_values(error: Exception) -> str:
    """Return why a statement was refused, without the row that its details may show."""
    if isinstance(error, psycopg.Error) and error.sqlstate:
        return f"{error.sqlstate} {error.diag.message_primary}"
    return type(error).__name__


class Outage:
    """What one purpose has told of its trouble with Postgres. Not for concurrent use."""

    def __init__(self, purpose: str, observe: Observer) -> None:
        self._purpose = purpose
        self._observe = observe
        self._told: set[type[Event]] = set()

    def lost(self, error: DatabaseAway | psycopg.Error) -> None:
        """Tell that the database is away, or that it refuses a statement: each once an outage."""
        away = isinstance(error, (DatabaseAway, *AWAY))
        kind = DatabaseLost if away else StatementFailed
        if kind not in self._told:
            self._told.add(kind)
            told = str(error) if away else without_values(error)
            self._observe(kind(self._purpose, told))

    def found(self) -> None:
        """Note a success; tell that the database is back if it was away."""
        if DatabaseLost in self._told:
            self._observe(DatabaseFound(self._purpose))
        self._told.clear()
