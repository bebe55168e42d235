"""One task as its owner sees it, in each of its states."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.api import Api
from support.plans import prepared, read
from taskbell.shared.database import conninfo
from taskbell.shared.forecast import COUNTED
from taskbell.shared.statements import reading

STATES = {
    "running": """
        WITH o AS (DELETE FROM taskbell.outbox RETURNING task_id, queue), l AS (
            INSERT INTO taskbell.lease
                (task_id, expires_at, attempt, progress, queue, worker_id, cancel_requested)
            SELECT task_id, clock_timestamp() + interval '1 h', 1, '{"done": 3}', queue, 'w', true
            FROM o)
        UPDATE taskbell.task
        SET status = 'IN_PROGRESS', attempt_count = 1, started_at = '2026-01-02T03:04:05.5Z'
        """,
    "completed": """
        WITH o AS (DELETE FROM taskbell.outbox)
        UPDATE taskbell.task
        SET status = 'COMPLETED', attempt_count = 1, result = '{"total": 1.50, "ok": "ä"}',
            started_at = clock_timestamp(), finished_at = clock_timestamp()
        """,
    "stored": """
        WITH o AS (DELETE FROM taskbell.outbox)
        UPDATE taskbell.task
        SET status = 'COMPLETED', attempt_count = 1, result_location = 'result/x',
            started_at = clock_timestamp(), finished_at = clock_timestamp()
        """,
    "retrying": """
        WITH o AS (UPDATE taskbell.outbox
                   SET publish_at = clock_timestamp() + interval '1 hour')
        UPDATE taskbell.task
        SET status = 'RETRYING', attempt_count = 2, error_message = 'no "route"',
            started_at = clock_timestamp()
        """,
    "measured": """
        WITH o AS (UPDATE taskbell.outbox
                   SET publish_at = clock_timestamp() - interval '50 seconds')
        INSERT INTO taskbell.queue (name, depth, oldest_age, drain_rate)
        VALUES ('default', 1000, 100, 10)
        """,
    "paused": """
        INSERT INTO taskbell.queue (name, paused, depth, oldest_age, drain_rate)
        VALUES ('default', true, 9, 9, 9)
        """,
}


async def _shown(api: Api, database_url: str, state: str) -> dict[str, Any]:
    made = await api.client.post("/tasks", json={"type": "noop", "payload": "a secret"})
    with psycopg.connect(conninfo(database_url)) as connection:
        connection.execute(STATES[state].encode())
    shown = await api.client.get(made.headers["location"])
    assert shown.status_code == 200
    assert "a secret" not in shown.text
    task: dict[str, Any] = shown.json()
    return task


async def test_a_running_task_shows_its_progress(api: Api, database_url: str) -> None:
    task = await _shown(api, database_url, "running")

    assert (task["status"], task["attempts"]) == ("IN_PROGRESS", 1)
    assert task["progress"] == {"done": 3}
    assert task["cancel_requested"] is True
    assert task["started_at"] == "2026-01-02T03:04:05.500000Z"
    assert (task["due_at"], task["position"], task["estimated_start_at"]) == (None, None, None)


async def test_a_completed_task_shows_its_result(api: Api, database_url: str) -> None:
    task = await _shown(api, database_url, "completed")

    assert task["result"] == {"total": 1.5, "ok": "ä"}
    assert task["result_location"] is None
    assert task["finished_at"] is not None


async def test_a_result_that_is_kept_elsewhere_is_named(api: Api, database_url: str) -> None:
    task = await _shown(api, database_url, "stored")

    assert task["result"] is None
    assert task["result_location"] == f"/tasks/{UUID(task['task_id'])}/result"


async def test_a_failed_attempt_shows_its_error_and_when_it_is_due(
    api: Api, database_url: str
) -> None:
    task = await _shown(api, database_url, "retrying")

    assert (task["status"], task["error"]) == ("RETRYING", 'no "route"')
    assert task["position"] is None
    assert task["estimated_start_at"] == task["due_at"]
    assert datetime.fromisoformat(task["due_at"]) > datetime.now(UTC)


async def test_a_waiting_task_has_a_place_and_a_time(api: Api, database_url: str) -> None:
    task = await _shown(api, database_url, "measured")

    assert task["position"] == 1
    assert datetime.fromisoformat(task["estimated_start_at"]) > datetime.fromisoformat(
        task["due_at"]
    )


async def _place(api: Api, task_id: str) -> int | None:
    answer = await api.client.get(f"/tasks/{task_id}")
    place: int | None = answer.json()["position"]
    return place


async def test_a_place_is_by_priority_and_then_by_age(api: Api) -> None:
    born = [
        (await api.client.post("/tasks", json={"type": "noop", **asked})).json()["task_id"]
        for asked in (
            {"priority": 1}, {}, {}, {"priority": 9}, {"queue": "another"}, {"delay": 3600.0},
            {"partition_key": "a line"}, {"priority": 9, "delay": 3600.0}, {},
        )
    ]  # fmt: skip

    places = [await _place(api, each) for each in born]

    assert places == [5, 2, 3, 1, 1, None, None, None, 4]


BURST = """
WITH n AS (
    SELECT CAST('01900000-0000-7000-8000-' || lpad(to_hex(i), 12, '0') AS uuid) AS id,
           clock_timestamp() - interval '30 seconds' + i * interval '1 microsecond' AS due_at
    FROM generate_series(1, 20000) AS i
), t AS (
    INSERT INTO taskbell.task (id, owner_id, type, queue, payload)
    SELECT id, 'alice', 'noop', 'burst', '{}' FROM n
), q AS (
    INSERT INTO taskbell.queue (name, depth, oldest_age, drain_rate)
    VALUES ('burst', 20000, 30, 10)
)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at)
SELECT id, 'burst', 5, due_at FROM n
"""


async def test_of_a_burst_the_first_are_counted_and_the_rest_are_behind_them(
    api: Api, database_url: str
) -> None:
    with psycopg.connect(conninfo(database_url)) as connection:
        connection.execute(BURST)

    places = [
        await _place(api, f"01900000-0000-7000-8000-{number:012x}")
        for number in (1, 40, 100, 101, 20_000)
    ]

    assert places == [1, 40, 100, 10_050, 10_050]


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_looking_at_a_task_reads_a_bounded_part_of_its_queue(database_url: str, mode: str) -> None:
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        connection.execute(BURST)
        connection.execute("VACUUM ANALYZE taskbell.task, taskbell.outbox")
    with psycopg.connect(conninfo(database_url)) as connection:
        last = UUID("01900000-0000-7000-8000-000000004e20")
        nodes = prepared(connection, reading.READ, mode, task_id=last, owner_id="alice")

    assert read(nodes) < COUNTED + 100


async def test_a_paused_queue_promises_nothing(api: Api, database_url: str) -> None:
    task = await _shown(api, database_url, "paused")

    assert (task["position"], task["estimated_start_at"]) == (None, None)
