"""The storage as the processes meet it: relays and workers collect, and a bad one stops a start."""

import os
import subprocess
import sys

import pytest

from support.fleet import Fleet
from support.stores import Stand
from support.waiting import PATIENCE, wait_until


@pytest.mark.parametrize("role", ["relay", "consumer"])
def test_a_process_with_a_storage_collects(fleet: Fleet, file_stand: Stand, role: str) -> None:
    fleet.environment["TASKBELL_STORAGE_URL"] = file_stand.url
    (fleet.start_relay if role == "relay" else fleet.start_consumer)()

    wait_until("the root is marked", lambda: file_stand.holds("taskbell"))
    assert fleet.stop(role) == 0


@pytest.mark.parametrize("role", [["relay"], ["consumer", "support.application:app"]])
def test_a_storage_that_cannot_be_opened_ends_the_start_in_one_line(role: list[str]) -> None:
    environment = os.environ | {
        "TASKBELL_DATABASE_URL": "postgresql://nobody@localhost/none",
        "TASKBELL_AMQP_URL": "amqp://localhost",
        "TASKBELL_STORAGE_URL": "s3://user:hunter2@bucket",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ended = subprocess.run(
        [sys.executable, "-m", f"taskbell.{role[0]}", *role[1:]],
        env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip

    assert ended.returncode == 2
    assert ended.stderr.startswith("TASKBELL_STORAGE_URL: ")
    assert ended.stderr.count("\n") == 1
    assert "hunter2" not in ended.stderr
