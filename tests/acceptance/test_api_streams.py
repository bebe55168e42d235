"""A task's life followed through ``taskbell api`` while a real consumer runs it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.api import ApiProcesses
from support.fleet import Fleet, open_fleet
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Without a broker: neither cancelling nor following needs one."""
    yield from open_fleet(tmp_path, database_url, None)


def submitted(url: str, **task: Any) -> str:
    """The path of a new task."""
    answer = httpx2.post(f"{url}/tasks", json={"type": "record", **task}, timeout=PATIENCE)
    location: str = answer.headers["location"]
    return location


def statuses(response: httpx2.Response) -> Iterator[str]:
    """What a stream tells, and ``end``."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield json.loads(line.removeprefix("data: ")).get("status", name)


def test_a_task_is_followed_from_its_wait_to_its_cancellation(
    fleet: Fleet, api_processes: ApiProcesses
) -> None:
    url = api_processes.start()
    path = submitted(url, payload={"seconds": 3600})
    with httpx2.stream("GET", f"{url}{path}/events", timeout=PATIENCE) as response:
        told = statuses(response)
        assert next(told) == "PENDING"
        fleet.start_consumer()
        assert next(told) == "IN_PROGRESS"

        ended = httpx2.post(f"{url}{path}/cancel?wait=30", timeout=PATIENCE)

        assert (ended.status_code, ended.json()["answer"]) == (200, "cancelled")
        assert list(told) == ["CANCELLED", "end"]


def test_streams_end_with_the_process_and_do_not_keep_it(
    fleet: Fleet, api_processes: ApiProcesses
) -> None:
    url = api_processes.start(API_GRACE="600")
    path = submitted(url, payload={})
    with httpx2.stream("GET", f"{url}{path}/events", timeout=PATIENCE) as response:
        told = statuses(response)
        assert next(told) == "PENDING"

        fleet.signal("api", signal.SIGTERM)

        assert list(told) == []
        wait_until("it ended", lambda: fleet.ended("api") is not None)
    assert fleet.ended("api") == 0
