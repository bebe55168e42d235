"""`taskbell queues`: see them, pause and resume them, hold and release their partitions."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from taskbell.shared import queues
from taskbell.shared.cli.asking import Actor, DatabaseUrl, Yes, ask, myself, require_yes
from taskbell.shared.cli.ending import fail
from taskbell.shared.cli.output import Output, OutputFormat, fields_of, say, show_many
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.limits import QUEUE_BYTES, QUEUE_CHARACTERS
from taskbell.shared.queues import HeldPartition, Queue

__all__ = ["OnDeadOption", "decide", "held", "list_many", "pause", "register", "release", "resume"]

_LISTED = ("queue", "paused", "paused_until", "max_depth", "depth", "oldest_age", "drain_rate",
           "running", "on_dead", "held")  # fmt: skip
_MOST_DEPTH = 10**15
_HELD = ("partition_key", "task_id", "status", "held_at", "waiting")


class OnDeadOption(StrEnum):
    """What a partition does once its head failed or was cancelled."""

    CONTINUE = "continue"
    HOLD = "hold"


def _named(queue: str) -> str:
    if len(queue.encode()) > QUEUE_BYTES or not QUEUE_CHARACTERS.fullmatch(queue):
        raise typer.BadParameter("no queue can have this name")
    return queue


Name = Annotated[str, typer.Argument(help="The queue.", callback=_named)]


def register(app: typer.Typer) -> None:
    commands = typer.Typer(help="Queues and their partitions.", no_args_is_help=True)
    commands.command("list")(list_many)
    commands.command("held")(held)
    commands.command("pause")(pause)
    commands.command("resume")(resume)
    commands.command("set")(decide)
    commands.command("release")(release)
    app.add_typer(commands, name="queues")


def list_many(
    *,
    after: Annotated[str, typer.Option(metavar="QUEUE", help="Those behind this name.")] = "",
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """List queues by name, 1 000 at most: what was decided about them and last measured."""

    async def verb(connection: DedicatedConnection) -> list[Queue]:
        return await queues.list_many(connection, after=after)

    found = ask(database_url, verb)
    show_many([fields_of(queue) for queue in found], _LISTED, output)
    if len(found) == queues.MOST_LISTED:
        typer.echo(f"there may be more: --after {shlex.quote(found[-1].queue)}", err=True)


def held(
    queue: Name,
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """List held partitions, the longest held first, with the task each waits for."""

    async def verb(connection: DedicatedConnection) -> list[HeldPartition]:
        return await queues.held(connection, queue, limit=limit)

    show_many([fields_of(partition) for partition in ask(database_url, verb)], _HELD, output)


def pause(
    queue: Name,
    *,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0.0, max=1e9, help="Seconds; else until resumed.")
    ] = None,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Let nothing of a queue be claimed; what runs goes on."""
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> datetime | None:
        return await queues.pause(connection, queue, actor=who, seconds=seconds)

    until = ask(database_url, verb)
    words = "until it is resumed" if until is None else f"until {until.isoformat(sep=' ')}"
    say(f"{queue} is paused {words}", {"queue": queue, "paused_until": until}, output)


def resume(
    queue: Name,
    *,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Let a queue be claimed again, at once; code 1 if it was not paused."""
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> bool:
        return await queues.resume(connection, queue, actor=who)

    if not ask(database_url, verb):
        fail(f"{queue} was not paused")
    say(f"{queue} is resumed", {"queue": queue}, output)


def decide(
    queue: Name,
    *,
    on_dead: Annotated[
        OnDeadOption | None, typer.Option(help="When the head of a partition dies.")
    ] = None,
    max_depth: Annotated[
        str | None,
        typer.Option(help="How many due tasks fill it, for producers that ask; or none."),
    ] = None,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Decide when the queue is full, and whether a partition goes on after its head failed."""
    if on_dead is None and max_depth is None:
        fail("name --on-dead or --max-depth", code=2)
    most = None if max_depth is None else _depth(max_depth)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> int | None:
        if max_depth is not None:
            await queues.set_max_depth(connection, queue, most, actor=who)
        if on_dead is None:
            return None
        return await queues.set_on_dead(connection, queue, on_dead.value, actor=who)

    still = ask(database_url, verb)
    words: list[str] = []
    fields: dict[str, object] = {"queue": queue}
    if on_dead is not None:
        held_still = f"; {still} of its partitions are held until they are released"
        words.append(on_dead.value + (held_still if still else ""))
        fields |= {"on_dead": on_dead.value, "held": still}
    if max_depth is not None:
        words.append("never full" if most is None else f"full at {most}")
        fields |= {"max_depth": most}
    say(f"{queue}: {', '.join(words)}", fields, output)


def _depth(given: str) -> int | None:
    if given == "none":
        return None
    if not given.isascii() or not given.isdecimal() or int(given) > _MOST_DEPTH:
        fail("--max-depth takes a whole number from 0, or none", code=2)
    return int(given)


def release(
    queue: Name,
    partition_key: Annotated[str | None, typer.Argument()] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All held partitions.")] = False,
    yes: Yes = False,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Let a held partition go on without the head it lost; code 1 if it was not held."""
    if everything == (partition_key is not None):
        fail("name either a partition key or --all", code=2)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> Sequence[str]:
        if everything:
            require_yes(await queues.count_held(connection, queue), "release", yes=yes)
        return await queues.release(connection, queue, partition_key, actor=who)

    released = ask(database_url, verb)
    if partition_key is not None and not released:
        fail(f"partition {partition_key} of {queue} was not held")
    fields = {"queue": queue, "released": sorted(released)}
    say(f"{len(released)} released", fields, output)
