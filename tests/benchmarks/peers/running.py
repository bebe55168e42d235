"""Runs a peer as itself: its workers and producers in its own environment, measured like ours."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks import counters
from benchmarks.bench import Bench
from benchmarks.crew import Crew, RunFailed
from benchmarks.measured import Sample, Seen, seen
from benchmarks.meter import Meter
from benchmarks.peers.catalogue import BY_NAME, Peer

_PATIENCE = 300.0
_ENVIRONMENTS = Path(__file__).resolve().parents[3] / "build" / "peers"


@dataclass
class Running:
    """A peer on a database or a vhost of its own."""

    peer: Peer
    crew: Crew
    database_url: str | None

    def run(self, name: str, kind: str, count: int = 0) -> None:
        """Start one of its programs."""
        self.crew.launch(name, [_python(self.peer), "-m", self.peer.program, kind, str(count)])

    def finish(self, kind: str, count: int = 0) -> None:
        """Run one of its programs to its end."""
        self.run(kind, kind, count)
        self.crew.ended(kind, _PATIENCE)
        self.crew.stop(kind)

    def work(self) -> None:
        """Start its workers."""
        for number in range(self.peer.workers):
            self.run(f"worker-{number}", "work")

    def seen(self) -> Seen:
        """What its workers' tallies say."""
        return seen(self.crew.directory)


@contextmanager
def open_peer(bench: Bench, name: str, *, tuned: bool) -> Generator[Running]:
    """A peer whose schema, if it has one, is there."""
    peer = BY_NAME[name]
    environment = {"PEER_TUNED": "1" if tuned else "0"}
    database_url = None
    if peer.store == "postgres":
        database_url = bench.servers.database(migrated=False)
        environment["PEER_DATABASE_URL"] = database_url.replace("+psycopg", "", 1)
    else:
        environment["PEER_AMQP_URL"] = bench.servers.vhost()
    with Crew(bench.run_directory(), environment) as crew:
        running = Running(peer, crew, database_url)
        if database_url is not None:
            running.finish("prepare")
        yield running


def drain(bench: Bench, name: str, *, tuned: bool) -> Sample:
    """Drain a backlog, or as much of it as fits the time; from the first handler to the last."""
    with open_peer(bench, name, tuned=tuned) as running:
        count = running.peer.backlog
        running.finish("preload", count)
        if running.database_url is not None:
            counters.tidy(running.database_url)
        meter = Meter(running.database_url)
        meter.count()
        running.work()
        running.crew.wait("a first task runs", lambda: running.seen().count, _PATIENCE)
        before = running.seen().count
        meter.begin()
        ran = _watched(running, count, bench.size.peer_seconds)
        meter.end()
        if ran.count == count:
            _require_once(running, count, ran)
        running.crew.kill()
        # Its CPU was measured from a little after its first task to the last look.
        sample = meter.sample(ran.count, ran.last - ran.first)
        share = ran.count / max(1, ran.count - before)
        return Sample(
            sample.tasks, sample.seconds,
            {group: used * share for group, used in sample.cpu.items()}, sample.counts,
            None if running.peer.store == "postgres" else ran.count, (), sample.foreign,
        )  # fmt: skip


def _watched(running: Running, count: int, seconds: float) -> Seen:
    deadline = time.monotonic() + seconds
    while (ran := running.seen()).count < count and time.monotonic() < deadline:
        running.crew.check("its tasks run")
        time.sleep(0.02)
    return ran


def _require_once(running: Running, count: int, ran: Seen) -> None:
    if ran.total != count * (count - 1) // 2:
        raise RunFailed(f"{running.peer.name} did not run each of {count} tasks once: {ran}")
    url, query = running.database_url, running.peer.left
    if url is not None and query:
        running.crew.wait("nothing is left", lambda: not counters.rows(url, query)[0][0], 30.0)


def enqueue(bench: Bench, name: str) -> Sample:
    """Enqueue one by one, each committed or confirmed before the next."""
    with open_peer(bench, name, tuned=True) as running:
        count = bench.size.enqueues // 3
        running.run("enqueue", "enqueue", count)
        running.crew.says("enqueue", "ready\n")
        meter = Meter(running.database_url)
        meter.count()
        meter.begin()
        running.crew.tell("enqueue", "go")
        running.crew.ended("enqueue", _PATIENCE)
        meter.end()
        told = _answer(running.crew.log("enqueue"))
        sample = meter.sample(count, told["seconds"])
        sample.cpu["python"] = told["cpu"]
        return sample


def idle(bench: Bench, name: str) -> Sample:
    """Latencies of tasks that come one now and then."""
    with open_peer(bench, name, tuned=True) as running:
        count = max(30, bench.size.samples // 3)
        running.work()
        running.run("idle", "idle", count)
        running.crew.says("idle", "ready\n")
        time.sleep(4.0)  # its workers say in six different ways that they are up, some in none
        meter = Meter(running.database_url)
        meter.begin()
        running.crew.tell("idle", "go")
        running.crew.wait("all ran", lambda: running.seen().count >= count, _PATIENCE)
        meter.end()
        running.crew.kill()
        return meter.sample(count, delays=running.seen().delays)


def _answer(log: Path) -> dict[str, float]:
    told: dict[str, float] = json.loads(log.read_text("utf-8").splitlines()[-1])
    return told


def _python(peer: Peer) -> str:
    """The interpreter of the peer's own environment, which is made once and kept."""
    key = sha256(" ".join((*peer.packages, sys.version)).encode()).hexdigest()[:8]
    home = _ENVIRONMENTS / f"{peer.name}-{key}"
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
        environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
        for command in (
            ["venv", "--clear", "--quiet", "--python", sys.executable, str(home)],
            ["pip", "install", "--quiet", "--python", str(python), *peer.packages],
        ):
            subprocess.run([uv, *command], check=True, env=environment)
        ready.touch()
    return str(python)
