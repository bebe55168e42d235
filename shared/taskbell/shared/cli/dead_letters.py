"""`taskbell dead-letters`: read them, group them by cause, redrive them, discard them."""

from collections.abc import Mapping
from typing import Annotated
from uuid import UUID

import typer

from taskbell.shared import dead_letters
from taskbell.shared.cli.asking import Actor, DatabaseUrl, Yes, ask, myself, require_yes
from taskbell.shared.cli.ending import fail
from taskbell.shared.cli.output import Output, OutputFormat, fields_of, say, show_many, show_one
from taskbell.shared.cli.ring import open_causes, open_inspection, open_letters, ring
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.dead_letters import Cause, DeadLetter, Filters, Inspection, Place

__all__ = ["causes", "discard", "list_many", "redrive", "register", "show"]

Queue = Annotated[str | None, typer.Option(help="Only of this queue.")]
Type = Annotated[str | None, typer.Option("--type", help="Only of this type.")]
Owner = Annotated[str | None, typer.Option(help="Only of this owner.")]
CauseOption = Annotated[
    str | None, typer.Option("--cause", help="Only with this fingerprint; causes lists them.")
]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")]
Ids = Annotated[list[UUID] | None, typer.Argument(help="Task ids.")]
Rate = Annotated[
    float | None, typer.Option(min=0.001, help="Let at most so many a second become due.")
]
_LISTED = ("task_id", "failed_at", "queue", "type", "attempt_count", "fingerprint", "last_error")
_CAUSES = ("fingerprint", "dead_letters", "first_failed_at", "last_failed_at", "type", "example",
           "last_error")  # fmt: skip


def register(app: typer.Typer) -> None:
    commands = typer.Typer(help="Tasks that failed for good, and why.", no_args_is_help=True)
    commands.command("list")(list_many)
    commands.command("causes")(causes)
    commands.command("show")(show)
    commands.command("redrive")(redrive)
    commands.command("discard")(discard)
    app.add_typer(commands, name="dead-letters")


def list_many(
    *,
    queue: Queue = None,
    task_type: Type = None,
    owner: Owner = None,
    cause: CauseOption = None,
    after: Annotated[str | None, typer.Option(help="The last page's last line.")] = None,
    limit: Limit = 50,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """List dead letters, the newest first."""
    only = Filters(queue, task_type, owner, cause)
    place, seals = _place(after), ring()

    async def verb(connection: DedicatedConnection) -> list[DeadLetter]:
        letters = await dead_letters.list_many(connection, only, after=place, limit=limit)
        return await open_letters(connection, letters, seals)

    found = ask(database_url, verb)
    rows = [fields_of(letter) | {"place": str(letter.place)} for letter in found]
    show_many(rows, _LISTED, output)
    if output is OutputFormat.TABLE and len(found) == limit:
        typer.echo(f"go on with --after {found[-1].place}")


def causes(
    *,
    queue: Queue = None,
    task_type: Type = None,
    owner: Owner = None,
    limit: Limit = 50,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Group dead letters by cause, the most frequent first."""
    only, seals = Filters(queue, task_type, owner), ring()

    async def verb(connection: DedicatedConnection) -> list[Cause]:
        found = await dead_letters.causes(connection, only, limit=limit)
        return await open_causes(connection, found, seals)

    show_many([fields_of(cause) for cause in ask(database_url, verb)], _CAUSES, output)


def show(
    task_id: Annotated[UUID, typer.Argument()],
    *,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Show one dead letter and every failed attempt of its task."""
    seals = ring()

    async def verb(connection: DedicatedConnection) -> Inspection | None:
        found = await dead_letters.show(connection, task_id)
        return None if found is None else await open_inspection(connection, found, seals)

    found = ask(database_url, verb)
    if found is None:
        fail(f"task {task_id} has no dead letter")
    history: list[Mapping[str, object]] = [fields_of(attempt) for attempt in found.history]
    if output is OutputFormat.JSON:
        show_one(None, fields_of(found.letter) | {"history": history}, output)
        return
    show_one(None, fields_of(found.letter), output)
    for attempt in history:
        typer.echo()
        show_one(None, attempt, output)


def redrive(  # noqa: PLR0913 - each is an option of the command
    task_ids: Ids = None,
    *,
    cause: CauseOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, or of --queue.")] = False,
    queue: Queue = None,
    rate: Rate = None,
    yes: Yes = False,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Make dead letters PENDING again, with a fresh budget of tries."""
    only = _chosen(task_ids, cause, queue, everything=everything)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> int:
        if only is None:
            ids = task_ids or []
            return len(await dead_letters.redrive_many(connection, ids, actor=who, rate=rate))
        require_yes(await dead_letters.count(connection, only), "redrive", yes=yes)
        return await dead_letters.redrive_all(connection, only, actor=who, rate=rate)

    _tell("redriven", ask(database_url, verb), task_ids, output)


def discard(
    task_ids: Ids = None,
    *,
    cause: CauseOption = None,
    queue: Queue = None,
    yes: Yes = False,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Delete failed tasks with all that is known of them; their idempotency keys become free."""
    only = _chosen(task_ids, cause, queue, everything=False)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> int:
        if only is None:
            require_yes(len(task_ids or []), "discard", yes=yes)
            return len(await dead_letters.discard_many(connection, task_ids or [], actor=who))
        require_yes(await dead_letters.count(connection, only), "discard", yes=yes)
        return await dead_letters.discard_all(connection, only, actor=who)

    _tell("discarded", ask(database_url, verb), task_ids, output)


def _chosen(
    task_ids: list[UUID] | None, cause: str | None, queue: str | None, *, everything: bool
) -> Filters | None:
    """Give the filters, or None where ids were named."""
    ways = [bool(task_ids), cause is not None, everything]
    if sum(ways) != 1:
        fail("name either task ids, or --cause, or (to redrive) --all", code=2)
    if task_ids and queue is not None:
        fail("--queue narrows --cause and --all, not task ids", code=2)
    return None if task_ids else Filters(queue=queue, fingerprint=cause)


def _place(after: str | None) -> Place | None:
    try:
        return None if after is None else Place.read(after)
    except ValueError:
        fail("--after takes what the page before ended with", code=2)


def _tell(done: str, count: int, task_ids: list[UUID] | None, output: Output) -> None:
    """Say how many; an id that had no dead letter makes the answer a bad one."""
    missed = len(set(task_ids or ())) - count if task_ids else 0
    sentence = f"{count} {done}" + (f", {missed} had no dead letter" if missed else "")
    say(sentence, {done: count, "without_dead_letter": missed}, output)
    if missed:
        raise typer.Exit(1)
