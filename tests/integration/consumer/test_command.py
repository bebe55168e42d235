"""The process: what it says when it cannot start, and the code with which it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.factories import make_tasks
from support.waiting import PATIENCE, wait_until
from support.workers import rows, task_of

APPLICATION = """
import asyncio
from taskbell.consumer import Consumer

app, empty, other = Consumer(), Consumer(), object()

@app.handler("quick")
async def quick(context, payload):
    return 1

@app.handler("endless")
async def endless(context, payload):
    await asyncio.Event().wait()

@app.handler("stubborn")
async def stubborn(context, payload):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@app.handler("thread")
def thread(context, payload):
    while True:
        pass
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Command:
    """``taskbell consumer`` in a directory that holds ``application.py``."""

    def __init__(self, directory: Path, started: list[subprocess.Popen[str]]) -> None:
        (directory / "application.py").write_text(APPLICATION, encoding="utf-8")
        self._directory = directory
        self._started = started

    def start(self, application: str = "application:app", **settings: str) -> subprocess.Popen[str]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TASKBELL_")
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "taskbell.consumer", application],
            cwd=self._directory,
            env={**environment, **{f"TASKBELL_{name}": each for name, each in settings.items()}},
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process


@pytest.fixture
def command(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> Command:
    return Command(tmp_path, processes)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said


@pytest.mark.parametrize(
    ("application", "problem"),
    [
        ("application", "write module:app"),
        (":app", "write module:app"),
        (".relative:app", "write module:app"),
        ("nowhere:app", "No module named"),
        ("application:nothing", "nothing"),
        ("application:other", "is no taskbell.consumer.Consumer"),
        ("application:empty", "has no handlers"),
    ],
)
def test_an_application_that_cannot_be_used_ends_with_2(
    command: Command, application: str, problem: str
) -> None:
    code, said = ended(command.start(application, DATABASE_URL="postgresql://host/database"))

    assert code == 2
    assert problem in said
    assert "Traceback" not in said


def test_a_setting_that_cannot_be_used_ends_with_2(command: Command) -> None:
    code, said = ended(command.start(SLOTS="many"))

    assert code == 2
    assert "TASKBELL_DATABASE_URL" in said
    assert "TASKBELL_SLOTS" in said


def test_a_database_without_the_schema_ends_with_1(
    command: Command, empty_database_url: str
) -> None:
    code, said = ended(command.start(DATABASE_URL=empty_database_url))

    assert code == 1
    assert "taskbell migrate" in said


def test_stopped_while_the_database_is_away_it_ends_with_0(command: Command) -> None:
    process = command.start(DATABASE_URL="postgresql://127.0.0.1:1/x", LOG_FORMAT="json")
    assert process.stderr is not None
    assert "database_lost" in process.stderr.readline()

    process.send_signal(signal.SIGTERM)

    assert ended(process)[0] == 0


def wait_for_status(url: str, status: str) -> None:
    def look() -> bool:
        return bool(rows(url, "SELECT 1 AS n FROM taskbell.task WHERE status = %s", status))

    wait_until(f"a task is {status}", look)


@pytest.mark.parametrize("kind", ["endless", "thread"])
def test_a_handler_that_does_not_end_is_released_and_the_process_ends_with_0(
    command: Command, database_url: str, kind: str
) -> None:
    (task_id,) = make_tasks(database_url, type=kind)
    process = command.start(DATABASE_URL=database_url, GRACE="0.1")
    wait_for_status(database_url, "IN_PROGRESS")

    process.send_signal(signal.SIGTERM)

    assert ended(process)[0] == 0
    assert (task_of(database_url, task_id).status, task_of(database_url, task_id).used) == (
        "PENDING", 0
    )  # fmt: skip


def test_told_twice_it_ends_with_3_although_a_handler_swallows_its_cancellation(
    command: Command, database_url: str
) -> None:
    make_tasks(database_url, type="stubborn")
    process = command.start(DATABASE_URL=database_url, GRACE="3600")
    wait_for_status(database_url, "IN_PROGRESS")

    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)

    assert ended(process)[0] == 3
