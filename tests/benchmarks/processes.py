"""What the processes we started cost: CPU and memory, by group, from /proc.

A process that ended leaves its CPU with whoever waited for it, so the sum over a tree of processes
never shrinks while its root lives.
"""

import os
import resource
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_GROUPS: Final = {
    "postgres": "postgres",
    "beam.smp": "beam",
    "epmd": "beam",
    "erl_child_setup": "beam",
    "pgbench": "pgbench",
}

GROUPS: Final = ("postgres", "beam", "python")
"""The groups of every table: the database, the broker, and everything written in Python."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its parent, its name, the CPU it and its dead children used, its memory."""

    pid: int
    parent: int
    name: str
    cpu: float
    resident: int


def look(pid: int) -> Process | None:
    """Read one process; None if it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        name=name,
        cpu=sum(map(int, fields[11:15])) / _TICK,
        resident=int(fields[21]) * resource.getpagesize(),
    )


def descendants(root: int) -> Iterator[tuple[Process, str]]:
    """Everything below ``root`` that lives, with its group: its own, or its parent's."""
    children: defaultdict[int, list[Process]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (process := look(int(entry.name))) is not None:
            children[process.parent].append(process)
    line = [(each, "python") for each in children[root]]
    while line:
        process, inherited = line.pop()
        group = _GROUPS.get(process.name, inherited)
        yield process, group
        line += [(each, group) for each in children[process.pid]]


def cpu_by_group() -> dict[str, float]:
    """CPU seconds used so far by our servers and by the processes we started, not by ourselves."""
    total: defaultdict[str, float] = defaultdict(float)
    for process, group in descendants(os.getpid()):
        total[group] += process.cpu
    return dict(total)


def cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds these processes used so far."""
    return sum(found.cpu for pid in pids if (found := look(pid)) is not None)


def resident_of(pid: int) -> float:
    """Resident memory of a process and its children, in MB."""
    found = look(pid)
    own = found.resident if found is not None else 0
    return (own + sum(each.resident for each, _ in descendants(pid))) / 1e6


def busy() -> float:
    """CPU seconds that all processes of this machine used so far."""
    fields = list(map(int, _PROC.joinpath("stat").read_text("ascii").split("\n", 1)[0].split()[1:]))
    user, nice, system, _idle, _wait, interrupt, soft, steal = fields[:8]
    return (user + nice + system + interrupt + soft + steal) / _TICK


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds by group between two looks."""
    return {group: after.get(group, 0.0) - before.get(group, 0.0) for group in after}
