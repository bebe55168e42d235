"""Trouble with Postgres is told when it begins and when it ends, and not in between."""

import psycopg

from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import DatabaseFound, DatabaseLost, Event, StatementFailed
from taskbell.shared.outage import Outage


def test_an_outage_is_told_once_and_so_is_its_end() -> None:
    told: list[Event] = []
    outage = Outage("claim", told.append)

    outage.found()
    for _ in range(2):
        outage.lost(DatabaseAway("gone"))
        outage.lost(psycopg.OperationalError("gone another way"))
    outage.found()
    outage.found()

    assert told == [DatabaseLost("claim", "gone"), DatabaseFound("claim")]


def test_a_refused_statement_is_told_once_and_is_no_outage() -> None:
    told: list[Event] = []
    outage = Outage("claim", told.append)

    for _ in range(2):
        outage.lost(psycopg.ProgrammingError("no"))
        outage.found()

    assert told == [StatementFailed("claim", "ProgrammingError")] * 2


def test_both_kinds_of_trouble_that_alternate_are_told_once_each() -> None:
    told: list[Event] = []
    outage = Outage("claim", told.append)

    for _ in range(3):
        outage.lost(DatabaseAway("gone"))
        outage.lost(psycopg.ProgrammingError("no"))

    assert told == [DatabaseLost("claim", "gone"), StatementFailed("claim", "ProgrammingError")]
