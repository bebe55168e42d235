"""Queues for operators: see them, pause and resume them, hold and release their partitions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.statements import queue as statements

MOST_LISTED: Final = 1000
"""How many queues are listed at once."""

OnDead = Literal["continue", "hold"]
"""What a partition does once its head failed or was cancelled."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What was decided and measured; ``depth`` counts what is due, ``oldest_age`` is in seconds.

    ``running`` counts leases, ``held`` partitions; from ``max_depth`` on admission refuses tasks.
    """

    queue: str
    paused: bool
    paused_until: datetime | None
    on_dead: str
    depth: int | None
    oldest_age: float | None
    drain_rate: float | None
    measured_at: datetime | None
    running: int
    held: int
    max_depth: int | None


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A held partition, the head it lost (``status`` None: pruned) and how many wait."""

    queue: str
    partition_key: str
    task_id: UUID
    held_at: datetime
    status: str | None
    waiting: int


async def list_many(runner: Runner, *, after: str = "", limit: int = MOST_LISTED) -> list[Queue]:
    """Return the queues that were measured or about which something was decided, by name.

    ``limit`` of them at most, those behind the name ``after``.
    """
    rows = await runner.run(statements.OVERVIEW, after=after, limit=limit)
    return [Queue(*row) for row in rows]


async def count_held(runner: Runner, queue: str) -> int:
    """Return how many partitions of a queue are held."""
    (row,) = await runner.run(statements.COUNT_HELD, queue=queue)
    return int(row.held)


async def pause(
    runner: Runner, queue: str, *, actor: str, seconds: float | None = None
) -> datetime | None:
    """Let nothing of it be claimed, for so long or until it is resumed; what runs goes on.

    Returns the instant at which it goes on by itself, if one was asked for.
    """
    rows = await runner.run(statements.PAUSE, queue=queue, seconds=seconds, actor=actor)
    until: datetime | None = rows[0].paused_until
    return until


async def resume(runner: Runner, queue: str, *, actor: str) -> bool:
    """Let it be claimed again and wake who listens; returns whether it was paused."""
    return bool(await runner.run(statements.RESUME, queue=queue, actor=actor))


async def set_on_dead(runner: Runner, queue: str, on_dead: OnDead, *, actor: str) -> int:
    """Decide for the heads that end from now on; returns how many partitions are held still."""
    rows = await runner.run(statements.SET_ON_DEAD, queue=queue, on_dead=on_dead, actor=actor)
    return int(rows[0].held)


async def held(runner: Runner, queue: str, *, limit: int = 100) -> list[HeldPartition]:
    """Return the held partitions of a queue, the longest held first."""
    rows = await runner.run(statements.HELD, queue=queue, limit=limit)
    return [HeldPartition(*row) for row in rows]


async def release(
    runner: Runner, queue: str, partition_key: str | None = None, *, actor: str
) -> list[str]:
    """Let a partition go on without the head it lost; None: all. Returns the keys released."""
    rows = await runner.run(
        statements.RELEASE, queue=queue, partition_key=partition_key, actor=actor
    )
    return [row.partition_key for row in rows]


async def set_max_depth(runner: Runner, queue: str, max_depth: int | None, *, actor: str) -> None:
    """Let admission refuse new tasks while so many are due; None: never. 0 refuses all."""
    await runner.run(statements.SET_MAX_DEPTH, queue=queue, max_depth=max_depth, actor=actor)
