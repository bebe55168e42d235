"""Real processes of the roles, for acceptance tests: start, kill, stop, look at the outcome."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from sqlalchemy.engine import make_url

from services import Pooler
from support.application import SCHEMA
from support.rabbitmq import Vhost
from support.waiting import PATIENCE, wait_until
from taskbell.producer import NewTask, Producer
from taskbell.shared.database import conninfo

_HERE = Path(__file__).resolve().parent.parent


@dataclass
class Fleet:
    """The processes of one test, on one database and one vhost."""

    directory: Path
    database_url: str
    """The way to the database that the test itself uses."""
    roles_url: str
    """The way the roles use; a pooler may stand in it."""
    amqp_url: str | None
    behind_pooler: bool
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """What the processes it starts find in theirs besides."""
    pids: list[int] = field(default_factory=list[int])
    """Of every process it has started."""
    _running: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, "subprocess.Popen[bytes]"]
    )

    def start_relay(self, name: str = "relay") -> None:
        """Start a relay and wait until it is up."""
        self.start(name, "taskbell.relay")

    def start_consumer(
        self, name: str = "consumer", application: str = "support.application", slots: int = 20
    ) -> None:
        """Start a consumer and wait until it is up."""
        self.start(name, "taskbell.consumer", f"{application}:app", "--slots", str(slots))

    def start(self, name: str, *command: str) -> None:
        """Start ``python -m command`` and wait until its role is up."""
        self.launch(name, *command)
        self.wait_for_event(name, "role_started")

    def launch(self, name: str, *command: str) -> None:
        """Start ``python -m command``; for several at once, wait for their events afterwards."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(_HERE),
            "TASKBELL_DATABASE_URL": self.roles_url,
            "TASKBELL_BEHIND_POOLER": str(self.behind_pooler),
            "TASKBELL_LOG_FORMAT": "json",
            "TASKBELL_GRACE": "5",
            **self.environment,
        }
        if self.amqp_url is not None:
            environment["TASKBELL_AMQP_URL"] = self.amqp_url
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", *command], env=environment, stdout=log, stderr=log
            )
        self.pids.append(self.pid(name))

    def wait_for_event(self, name: str, event: str, patience: float = PATIENCE) -> None:
        """Return when this process has logged the event since it was started."""
        self.wait_for_word(name, f'"event": "{event}"', patience)

    def wait_for_word(self, name: str, word: str, patience: float = PATIENCE) -> None:
        """Return when this process has logged these characters since it was started."""

        def said() -> bool:
            code = self._running[name].poll()
            assert code is None, f"{name} ended with {code}:\n{self.tail(name)}"
            return word.encode() in self._log(name).read_bytes()

        wait_until(f"{name} says {word}", said, patience)

    def wait_for_reapers(self, count: int) -> None:
        """Return when this many processes are past the grace in which nobody reaps."""
        question = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'taskbell maintenance'"
            " AND backend_start < clock_timestamp() - interval '2.2 seconds'"
        )
        wait_until(f"{count} processes may reap", lambda: self.ask(question) >= count)

    def wait_until_frozen(self, name: str) -> None:
        """Return when a SIGSTOP has stopped this process."""
        status = Path(f"/proc/{self.pid(name)}/status")
        wait_until(f"{name} is frozen", lambda: "State:\tT" in status.read_text(encoding="ascii"))

    def tail(self, name: str) -> str:
        """The end of a process's log."""
        return self._log(name).read_text(encoding="utf-8", errors="replace")[-2000:]

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def kill(self, name: str) -> int:
        """SIGKILL; returns the pid it had."""
        process = self._running.pop(name)
        process.kill()
        process.wait()
        return process.pid

    def forget(self, name: str) -> None:
        """Throw away the log of a process of this name, if there was one."""
        self._log(name).unlink(missing_ok=True)

    def pid(self, name: str) -> int:
        """The process id of a process that was started and not ended by us."""
        return self._running[name].pid

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal; SIGSTOP freezes a process, SIGCONT lets it go on."""
        self._running[name].send_signal(number)

    def ended(self, name: str) -> int | None:
        """The exit code of a process that ended by itself; None while it runs."""
        return self._running[name].poll()

    def stop(self, name: str) -> int:
        """SIGTERM; returns the exit code."""
        self._running[name].send_signal(signal.SIGTERM)
        return self._running.pop(name).wait(PATIENCE)

    def close(self) -> None:
        """Stop everything that still runs."""
        for process in self._running.values():
            process.terminate()
            process.send_signal(signal.SIGCONT)  # a frozen one would not hear it
        for process in self._running.values():
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def enqueue(
        self, count: int, seconds: float = 0.0, *, task_type: str = "record", tries: int = 5
    ) -> list[UUID]:
        """Commit tasks in batches of 500; returns their ids."""
        tasks = [
            NewTask(task_type, {"seconds": seconds, "number": n}, max_attempts=tries)
            for n in range(count)
        ]
        enqueued: list[UUID] = []
        with psycopg.connect(conninfo(self.database_url)) as connection:
            for start in range(0, count, 500):
                batch = Producer().enqueue_many(connection, tasks[start : start + 500])
                connection.commit()
                enqueued += [each.task_id for each in batch]
        return enqueued

    def ask(self, question: str) -> int:
        """Ask the database for one number; 0 while it is away."""
        try:
            with psycopg.connect(conninfo(self.database_url)) as connection:
                row = connection.execute(question.encode()).fetchone()
        except psycopg.OperationalError:
            return 0
        assert row is not None
        return int(row[0])

    def rows(self, question: str, *parameters: object) -> list[Any]:
        """The rows of a query, as named tuples."""
        with psycopg.connect(conninfo(self.database_url), row_factory=namedtuple_row) as connection:
            return connection.execute(question.encode(), parameters).fetchall()

    def runs(self) -> int:
        """How many handlers have started."""
        return self.ask("SELECT count(*) FROM acceptance.run")

    def wait_for_runs(self, count: int, patience: float = PATIENCE) -> None:
        """Return when this many handlers have started."""
        wait_until(f"{count} runs", lambda: self.runs() >= count, patience)

    def wait_for_completion(self, count: int, patience: float = PATIENCE) -> None:
        """Return when this many tasks are completed and none is left."""

        def completed() -> bool:
            done = "SELECT count(*) FROM taskbell.task WHERE status = 'COMPLETED'"
            return count <= self.ask(done) and self._drained()

        self._wait(f"{count} tasks completed", completed, patience)

    def wait_until_drained(self, patience: float = PATIENCE) -> None:
        """Return when no task waits or runs."""
        self._wait("nothing waits or runs", self._drained, patience)

    def _drained(self) -> bool:
        return not self.ask(
            "SELECT (SELECT count(*) FROM taskbell.outbox) + (SELECT count(*) FROM taskbell.lease)"
        )

    def _wait(self, what: str, look: Callable[[], bool], patience: float) -> None:
        try:
            wait_until(what, look, patience)
        except AssertionError as error:
            tails = "\n".join(f"--- {name}\n{self.tail(name)}" for name in self._running)
            raise AssertionError(f"{error}\n{tails}") from None


@pytest.fixture(params=["direct", "pooled"])
def roles_url(request: pytest.FixtureRequest, database_url: str) -> Iterator[str]:
    """The roles' way to the test's database: directly, or through PgBouncer in transaction mode."""
    if request.param == "direct":
        yield database_url
        return
    with Pooler(database_url) as pooler:
        yield pooler.url_of(make_url(database_url).database or "")


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, roles_url: str, vhost: Vhost) -> Iterator[Fleet]:
    """A fleet on the run's servers, its database and vhost its own."""
    yield from open_fleet(tmp_path, database_url, vhost.url, roles_url)


def open_fleet(
    directory: Path, database_url: str, amqp_url: str | None, roles_url: str | None = None
) -> Iterator[Fleet]:
    """Give a fleet, and stop its processes at the end."""
    with psycopg.connect(conninfo(database_url)) as connection:
        connection.execute(SCHEMA)
    way = roles_url or database_url
    fleet = Fleet(directory, database_url, way, amqp_url, way != database_url)
    try:
        yield fleet
    finally:
        fleet.close()
