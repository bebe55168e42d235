"""The scenarios by name, in the order in which they run."""

from collections.abc import Callable
from typing import Final

from benchmarks.bench import Bench, Outcome
from benchmarks.scenarios import (
    ahead,
    api,
    backlog,
    drain,
    effect,
    enqueue,
    floors,
    held,
    idle,
    latency,
    leases,
    life,
    limits,
    memory,
    scaling,
)

SCENARIOS: Final[dict[str, Callable[[Bench], Outcome]]] = {
    "floors": floors.run,
    "limits": limits.run,
    "drain": drain.run,
    "life": life.run,
    "enqueue": enqueue.run,
    "api": api.run,
    "effect": effect.run,
    "latency": latency.run,
    "idle": idle.run,
    "backlog": backlog.run,
    "ahead": ahead.run,
    "held": held.run,
    "scaling": scaling.run,
    "leases": leases.run,
    "memory": memory.run,
}

NEED_SIZE: Final = frozenset({"backlog", "ahead", "held", "scaling", "leases", "memory"})
"""Those that say nothing while they are small."""
