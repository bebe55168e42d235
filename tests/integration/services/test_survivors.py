"""However the process that started servers ends, the servers and their directories go with it."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import services

pytestmark = pytest.mark.timeout(240)

PARENT = """
import sys
from contextlib import ExitStack
from services import open_postgres, open_rabbitmq
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
    shutil.rmtree(path)


def start_parent(directory: Path, *wanted: str) -> subprocess.Popen[str]:
    package = Path(services.__file__).parents[1]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *wanted],
        env=os.environ | {"PYTHONPATH": str(package), "TMPDIR": str(directory)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    return parent


def finish(parent: subprocess.Popen[str]) -> None:
    parent.wait()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.close()
    parent.stdout.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


class Witness:
    """Sees processes that are not our children end."""

    def __init__(self, pids: list[int]) -> None:
        self._resources = ExitStack()
        self._open = {os.pidfd_open(pid) for pid in pids}
        for descriptor in self._open:
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
    directory: Path, sent: signal.Signals
) -> None:
    parent = start_parent(directory, "postgres")
    started = descendants(parent.pid)
    assert len(started) > 2, "the guard, the server and its own processes"
    witness = Witness(started)

    # To the whole process group, as Ctrl-C at a terminal does it.
    os.killpg(parent.pid, sent)

    assert witness.all_end(20)
    assert list(directory.iterdir()) == []
    finish(parent)


def test_no_node_and_no_epmd_survive_the_process_that_started_them(directory: Path) -> None:
    parent = start_parent(directory, "rabbitmq")
    started = descendants(parent.pid)
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in started]
    assert {"epmd", "beam.smp"} <= set(names)
    witness = Witness(started)

    parent.kill()

    assert witness.all_end(20)
    assert list(directory.iterdir()) == []
    finish(parent)


def test_a_server_does_not_survive_its_guard(directory: Path) -> None:
    parent = start_parent(directory, "postgres")
    guard = children(parent.pid)[0]
    witness = Witness(descendants(guard))

    os.kill(guard, signal.SIGKILL)

    assert witness.all_end(20)
    parent.kill()
    finish(parent)


def test_a_goodbye_leaves_nothing_behind(directory: Path) -> None:
    parent = start_parent(directory, "postgres")
    witness = Witness(descendants(parent.pid))
    assert parent.stdin is not None

    parent.stdin.close()

    assert parent.wait() == 0
    assert witness.all_end(20)
    assert list(directory.iterdir()) == []
    finish(parent)
