"""What every scenario is given: the servers, the sizes, and where its files go."""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from benchmarks.servers import Servers


@dataclass(frozen=True)
class Size:
    """How much of everything: the same suite, in minutes or in half an hour."""

    rounds: int
    """How often each system is run, in turn with the others."""
    drain: int
    """Tasks of a drain."""
    peer_seconds: float
    """How long a peer is watched at most; its rate is steady by then."""
    floor_seconds: float
    """How long one pgbench script runs."""
    effects: int
    enqueues: int
    samples: int
    """Latencies per system."""
    idle_seconds: float
    backlog: int
    """The largest backlog."""
    load_seconds: float
    hold_seconds: float
    leases: int
    memory: int
    peers: bool = True


FULL: Final = Size(
    rounds=3, drain=50_000, peer_seconds=8.0, floor_seconds=4.0, effects=6_000, enqueues=3_000,
    samples=300, idle_seconds=12.0, backlog=1_000_000, load_seconds=10.0, hold_seconds=45.0,
    leases=10_000, memory=200_000,
)  # fmt: skip
SMOKE: Final = Size(
    rounds=1, drain=3_000, peer_seconds=4.0, floor_seconds=1.0, effects=400, enqueues=300,
    samples=30, idle_seconds=3.0, backlog=10_000, load_seconds=2.0, hold_seconds=5.0,
    leases=1_000, memory=10_000, peers=False,
)  # fmt: skip
LONG: Final = Size(
    rounds=5, drain=50_000, peer_seconds=15.0, floor_seconds=10.0, effects=20_000, enqueues=10_000,
    samples=1_000, idle_seconds=60.0, backlog=10_000_000, load_seconds=30.0, hold_seconds=300.0,
    leases=10_000, memory=1_000_000,
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One figure that was to be reached, and what came of it."""

    figure: str
    goal: str
    measured: str
    met: bool | None
    """None: it could not be judged."""
    reason: str = ""
    """What the limit is, where it was not met."""


@dataclass(frozen=True)
class Table:
    """Rows for the report, and for a plot if ``plot`` names the column to draw."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    plot: str | None = None


@dataclass(frozen=True)
class Curve:
    """Lines for a plot: name → points."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]


@dataclass
class Outcome:
    """What a scenario found."""

    findings: list[Finding] = field(default_factory=list[Finding])
    tables: list[Table] = field(default_factory=list[Table])
    curves: list[Curve] = field(default_factory=list[Curve])
    notes: list[str] = field(default_factory=list[str])


@dataclass
class Bench:
    """The servers and sizes of this invocation; remembers floors and rates for later scenarios."""

    servers: Servers
    size: Size
    directory: Path
    packages: Path | None = None
    """Where the roles find uvloop; None: they run on the standard loop."""
    known: dict[str, float] = field(default_factory=dict[str, float])
    """Rates measured so far by name, so that a floor is not measured twice."""

    def run_directory(self) -> Path:
        """A fresh directory for one run."""
        made = self.directory / "runs" / uuid4().hex[:12]
        made.mkdir(parents=True)
        return made

    def say(self, text: str) -> None:
        """Tell whoever watches."""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()
