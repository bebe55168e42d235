"""Postgres is restarted under load: callers are told 503, and whatever was accepted is there."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services import Postgres
from services.guarded import Port
from support.fleet import Fleet, open_fleet
from support.waiting import wait_until
from support.web import Answer, Caller, new_key

CALLERS = 8
RESTARTS = 2
ENOUGH = 50


@pytest.fixture
def fleet(tmp_path: Path, private_database_url: str) -> Iterator[Fleet]:
    """A process on a server that may crash."""
    yield from open_fleet(tmp_path, private_database_url, None)


def test_postgres_crashes_under_load(fleet: Fleet, private_postgres: Postgres) -> None:
    port = Port()
    fleet.environment["TASKBELL_API_PORT"] = str(port)
    fleet.start("api", "taskbell.producer.api")
    caller = Caller(port.number, new_key(fleet.database_url, "shop", "submit", "read"))
    told: list[Answer] = []
    over = threading.Event()

    def wait_for(accepted: int) -> None:
        wait_until(f"{accepted} tasks are accepted", lambda: _accepted(told) >= accepted)

    with ThreadPoolExecutor(CALLERS) as threads:
        working = [threads.submit(_submit_until, over, caller, told) for _ in range(CALLERS)]
        try:
            for _ in range(RESTARTS):
                wait_for(_accepted(told) + ENOUGH)
                private_postgres.restart_immediately()
            wait_for(_accepted(told) + ENOUGH)
        finally:
            over.set()
        for each in working:
            each.result()
    port.release()

    assert {each.status for each in told} <= {201, 503}
    refused = [each for each in told if each.status == 503]
    assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
    assert all(each.headers["content-type"] == "application/problem+json" for each in refused)
    ids = [each.json["task_id"] for each in told if each.status == 201]
    found = fleet.rows("SELECT id FROM taskbell.task WHERE id = ANY (CAST(%s AS uuid[]))", ids)
    assert len(ids) == len(set(ids)) == len(found)


def _accepted(told: list[Answer]) -> int:
    return sum(each.status == 201 for each in list(told))


def _submit_until(over: threading.Event, caller: Caller, told: list[Answer]) -> None:
    """Submit one after the other; whatever is refused is not repeated."""
    while not over.is_set():
        told.append(caller.ask("POST", "/tasks", {"type": "mail", "payload": {}}))
        # A refusal comes at once, and the next would too.
        if told[-1].status != 201:
            over.wait(0.05)
