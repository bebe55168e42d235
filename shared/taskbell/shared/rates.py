"""Rates for operators: how fast an owner, or whoever holds an API key, may submit tasks."""

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


def require_rate(rate: float, burst: float) -> None:
    """Refuse what no bucket can count by; raises ``ValueError``."""
    if not 0 < rate <= MOST:  # so written, NaN does not pass
        raise ValueError(f"rate: more than 0, at most {MOST:,.0f} tasks a second")
    if not 1 <= burst <= MOST:
        raise ValueError(f"burst: 1 to {MOST:,.0f} tasks at once")


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
    require_rate(rate, burst)
    await runner.run(
        statements.SET_RATE, scope=scope, name=name, rate=rate, burst=burst, actor=actor
    )


async def remove(runner: Runner, scope: Scope, name: str, *, actor: str) -> bool:
    """Remove a rate, so that there is none; returns whether there was one."""
    return bool(await runner.run(statements.REMOVE_RATE, scope=scope, name=name, actor=actor))
