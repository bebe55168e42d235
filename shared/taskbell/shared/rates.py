"""Rates for operators: how fast an owner, or whoever holds an API key, may submit tasks."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from taskbell.shared.connections import Runner
from taskbell.shared.limits import OWNER_BYTES
from taskbell.shared.statements import admission as statements

Scope = Literal["owner", "key"]
"""Whose rate it is: an owner's, by its name, or an API key's, by its prefix."""

MOST: Final = 1e9
"""The highest rate and burst."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens a second and at most; each task costs one. ``tokens`` are there now."""

    scope: Scope
    name: str
    rate: float
    burst: float
    tokens: float


async def list_many(runner: Runner) -> list[Rate]:
    """Return all that are set, the owners' first."""
    return [Rate(*row) for row in await runner.run(statements.RATES)]


async def set_rate(
    runner: Runner, scope: Scope, name: str, *, rate: float, burst: float, actor: str
) -> None:
    """Set a rate; a new bucket is full. Raises ``ValueError``.

    ``rate``: tasks a second, more than 0. ``burst``: tasks at once after a quiet time, at least 1;
    a batch larger than this is never admitted.
    """
    if len(name.encode()) > OWNER_BYTES or "\x00" in name:
        raise ValueError("no owner or key can have this name")
    if not (math.isfinite(rate) and 0 < rate <= MOST):
        raise ValueError("the rate must be more than 0 and at most 1e9 tasks a second")
    if not (math.isfinite(burst) and 1 <= burst <= MOST):
        raise ValueError("the burst must lie within 1 to 1e9 tasks")
    await runner.run(
        statements.SET_RATE, scope=scope, name=name, rate=rate, burst=burst, actor=actor
    )


async def remove(runner: Runner, scope: Scope, name: str, *, actor: str) -> bool:
    """Remove a rate, so that there is none; returns whether there was one."""
    return bool(await runner.run(statements.REMOVE_RATE, scope=scope, name=name, actor=actor))
