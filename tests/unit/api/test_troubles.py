"""The log says why requests are refused, and not with every one of them."""

import psycopg
import pytest

from taskbell.producer import StorageAway
from taskbell.producer.api import problems
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.troubles import RequestsRefused, Troubles
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Event


def test_each_problem_is_told_once_a_minute_while_it_lasts() -> None:
    told: list[Event] = []
    now = 0.0
    troubles = Troubles(told.append, lambda: now)

    for now in (0.0, 1.0, 59.0, 60.0, 61.0):  # noqa: B007 - the clock reads it
        troubles.met("database-away", DatabaseAway("refused"))
        troubles.met("storage-away", StorageAway("no such bucket"))

    assert told == 2 * [
        RequestsRefused("database-away", "refused"),
        RequestsRefused("storage-away", "no such bucket"),
    ]


@pytest.mark.parametrize("name", ["queue-full", "rate-limited", "invalid-task", "not-found"])
def test_what_callers_do_is_not_told(name: str) -> None:
    told: list[Event] = []

    Troubles(told.append).met(name, DatabaseAway("refused"))
    Troubles(told.append).met("database-away", Problem("database-away"))

    assert told == []


def test_no_values_of_a_statement_are_told() -> None:
    told: list[Event] = []
    error = psycopg.errors.UndefinedTable("the row (a secret)")
    problem = problems.of(error)
    assert problem is not None

    Troubles(told.append).met(problem.kind.name, error)

    assert told == [RequestsRefused("not-migrated", "42P01 None")]
