"""However the process that started servers ends, the servers and their directories go with it."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import services

pytestmark = pytest.mark.timeout(600)

PATIENCE = 90.0
"""Seconds: many times what the end of a server takes on a machine that has nothing else to do."""

PARENT = """
import signal
import sys
from contextlib import ExitStack
from services import open_postgres, open_rabbitmq
# A shell that runs the tests in its background has them ignore Ctrl-C, which is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
with ExitStack() as running:
    if "postgres" in sys.argv:
        running.enter_context(open_postgres(durable=False))
    if "rabbitmq" in sys.argv:
        running.enter_context(open_rabbitmq())
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that also the OS user of a root's Postgres can reach."""
    path = Path(tempfile.mkdtemp(prefix="taskbell-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)  # a guard may be deleting in it, too


class Parent:
    """A process of its own that starts servers and then waits for the end of its standard input."""

    def __init__(self, directory: Path, *wanted: str) -> None:
        package = Path(services.__file__).parents[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, *wanted],
            env=os.environ | {"PYTHONPATH": str(package), "TMPDIR": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def start(directory: Path) -> Iterator[Callable[..., Parent]]:
    with ExitStack() as resources:

        def start(*wanted: str) -> Parent:
            parent = Parent(directory, *wanted)
            # Leaving the context closes its pipes and waits for it.
            resources.enter_context(parent.process)
            resources.callback(parent.process.kill)
            assert parent.said == "ready\n"
            return parent

        yield start


def children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):  # A short-lived one, such as an autovacuum worker.
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in listed.split()]
    return []


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


class Witness:
    """Sees processes that are not our children end."""

    def __init__(self, pids: list[int]) -> None:
        self._resources = ExitStack()
        self._open: set[int] = set()
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                self._open.add(descriptor)
                self._resources.callback(os.close, descriptor)

    def all_end(self, seconds: float) -> bool:
        with self._resources:
            while self._open:
                ended, _, _ = select.select(list(self._open), [], [], seconds)
                if not ended:
                    return False
                self._open -= set(ended)
            return True


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_postgres_survives_the_process_that_started_it(
    directory: Path, start: Callable[..., Parent], sent: signal.Signals
) -> None:
    parent = start("postgres")
    started = descendants(parent.process.pid)
    assert len(started) > 2, "the guard, the server and its own processes"
    witness = Witness(started)

    # To the whole process group, as Ctrl-C at a terminal does it.
    os.killpg(parent.process.pid, sent)

    assert witness.all_end(PATIENCE)
    assert list(directory.iterdir()) == []


def test_no_node_and_no_epmd_survive_the_process_that_started_them(
    directory: Path, start: Callable[..., Parent]
) -> None:
    parent = start("rabbitmq")
    started = descendants(parent.process.pid)
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in started]
    assert {"epmd", "beam.smp"} <= set(names)
    witness = Witness(started)

    parent.process.kill()

    assert witness.all_end(PATIENCE)
    assert list(directory.iterdir()) == []


def test_a_server_does_not_survive_its_guard(start: Callable[..., Parent]) -> None:
    parent = start("postgres")
    guard = children(parent.process.pid)[0]
    witness = Witness(descendants(guard))

    os.kill(guard, signal.SIGKILL)

    assert witness.all_end(PATIENCE)


def test_a_goodbye_leaves_nothing_behind(directory: Path, start: Callable[..., Parent]) -> None:
    parent = start("postgres")
    witness = Witness(descendants(parent.process.pid))

    parent.close_input()

    assert parent.process.wait() == 0
    assert witness.all_end(PATIENCE)
    assert list(directory.iterdir()) == []
