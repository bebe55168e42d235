"""`taskbell tasks`: where is it and what does it wait for; cancel it."""

from typing import Annotated
from uuid import UUID

import typer

from taskbell.shared import tasks
from taskbell.shared.cli.asking import Actor, DatabaseUrl, Yes, ask, myself, require_yes
from taskbell.shared.cli.ending import fail
from taskbell.shared.cli.output import Output, OutputFormat, fields_of, show_many, show_one
from taskbell.shared.cli.ring import open_payload, open_whereabouts, ring
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.whereabouts import Whereabouts

__all__ = ["cancel", "register", "show"]

_TAKEN = frozenset({"cancelled", "requested"})


def register(app: typer.Typer) -> None:
    commands = typer.Typer(help="Single tasks.", no_args_is_help=True)
    commands.command("show")(show)
    commands.command("cancel")(cancel)
    app.add_typer(commands, name="tasks")


def show(
    task_id: Annotated[UUID, typer.Argument()],
    *,
    payload: Annotated[bool, typer.Option("--payload", help="Print its payload too.")] = False,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Say where a task is and what it waits for."""
    seals = ring()

    async def verb(connection: DedicatedConnection) -> tuple[Whereabouts, object] | None:
        found = await tasks.find(connection, task_id)
        if found is None:
            return None
        found = await open_whereabouts(connection, found, seals)
        return found, await open_payload(connection, found, seals) if payload else None

    answer = ask(database_url, verb)
    if answer is None:
        fail(f"there is no task {task_id}")
    found, content = answer
    fields = fields_of(found) | ({"payload": content} if payload else {})
    show_one(str(found), fields, output)


def cancel(
    task_ids: Annotated[list[UUID], typer.Argument(help="Task ids.")],
    *,
    yes: Yes = False,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Cancel what waits and ask the holder of what runs; code 1 if one of them was too late."""
    require_yes(len(set(task_ids)), "cancel", yes=yes)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> dict[UUID, str]:
        return await tasks.cancel_many(connection, task_ids, actor=who)

    answers = ask(database_url, verb)
    rows = [{"task_id": task_id, "answer": answer} for task_id, answer in answers.items()]
    show_many(rows, ("task_id", "answer"), output)
    if set(answers.values()) - _TAKEN:
        raise typer.Exit(1)
