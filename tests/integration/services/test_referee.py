"""The referee who judges the other proofs sees what must not happen, when it is made to happen."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.factories import make_tasks
from support.referee import Referee
from taskbell.shared.database import conninfo
from taskbell.shared.statements import claim, settlement

Connection = psycopg.Connection[Any]

HOLDER = {"worker_id": "holder", "lease_by_type": "{}", "lease": 30.0}
PLANTED = {
    "a final status changes": (
        "UPDATE taskbell.task SET status = 'PENDING', finished_at = NULL",
        "COMPLETED was final and became PENDING",
    ),
    "a task begins without a lease": (
        "UPDATE taskbell.task SET status = 'IN_PROGRESS', finished_at = NULL",
        "attempt 1 began without a lease",
    ),
    "a settlement without the fence": (
        "UPDATE taskbell.task SET status = 'RETRYING'",
        "attempt 1 became RETRYING without ending its lease",
    ),
    "a lease changes hands": (
        "UPDATE taskbell.lease SET worker_id = 'thief'",
        "the lease of (1, 'holder') changed hands",
    ),
    "an attempt is handed out twice": (
        "WITH x AS (DELETE FROM taskbell.lease RETURNING *) INSERT INTO taskbell.lease TABLE x",
        "attempt 1 came after attempt 1",
    ),
    "a lease is reaped early": (
        "DELETE FROM taskbell.lease",
        "the lease of (1, 'holder') was reaped before its timeout",
    ),
}


def _hold(connection: Connection, task_ids: list[UUID]) -> None:
    parameters = {**HOLDER, "task_ids": task_ids, "limit": 1}
    assert connection.execute(claim.BY_IDS.for_psycopg, parameters).fetchone()


def _complete(connection: Connection, task_ids: list[UUID]) -> None:
    _hold(connection, task_ids)
    parameters = {"task_ids": task_ids, "attempts": [1], "worker_id": "holder"}
    assert connection.execute(settlement.SETTLE_COMPLETED.for_psycopg, parameters).fetchone()


@pytest.mark.parametrize("crime", PLANTED)
def test_the_referee_sees_that(crime: str, database_url: str) -> None:
    statement, seen = PLANTED[crime]
    referee = Referee(database_url)
    over = "was final" in seen or "without a lease" in seen
    arrange: Callable[[Connection, list[UUID]], None] = _complete if over else _hold
    task_ids = make_tasks(database_url)
    with psycopg.connect(
        conninfo(database_url), autocommit=True, application_name="taskbell maintenance"
    ) as connection:
        arrange(connection, task_ids)
        assert [each for each in referee.verdict(task_ids).violations if "reaped" not in each] == []
        # On a table that holds one row: nothing needs to be named.
        connection.execute(statement.encode())

    violations = referee.verdict(task_ids).violations

    assert any(seen in each for each in violations), violations
