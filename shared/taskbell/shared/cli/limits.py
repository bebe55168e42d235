"""`taskbell limits`: how fast owners and API keys may submit tasks."""

from typing import Annotated

import typer

from taskbell.shared import rates
from taskbell.shared.cli.asking import Actor, DatabaseUrl, ask, myself
from taskbell.shared.cli.ending import fail
from taskbell.shared.cli.output import Output, OutputFormat, fields_of, say, show_many
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.rates import Rate, Scope

__all__ = ["list_many", "register", "remove", "set_rate"]

_LISTED = ("scope", "name", "rate", "burst", "tokens")

Owner = Annotated[str | None, typer.Option(help="An owner; '' is the one of those without.")]
Key = Annotated[str | None, typer.Option(help="The prefix of an API key.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    commands = typer.Typer(help="Rates of owners and API keys.", no_args_is_help=True)
    commands.command("list")(list_many)
    commands.command("set")(set_rate)
    commands.command("remove")(remove)
    app.add_typer(commands, name="limits")


def list_many(*, output: Output = OutputFormat.TABLE, database_url: DatabaseUrl = None) -> None:
    """List the rates that are set, and how many tokens there are now."""

    async def verb(connection: DedicatedConnection) -> list[Rate]:
        return await rates.list_many(connection)

    show_many([fields_of(rate) for rate in ask(database_url, verb)], _LISTED, output)


def set_rate(
    *,
    owner: Owner = None,
    key: Key = None,
    rate: Annotated[float, typer.Option(help="Tasks a second, on average.")],
    burst: Annotated[float, typer.Option(help="Tasks at once after a quiet time.")],
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Set how many tasks an owner, or whoever holds a key, may submit."""
    scope, name = _whose(owner, key)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> None:
        await rates.set_rate(connection, scope, name, rate=rate, burst=burst, actor=who)

    try:
        ask(database_url, verb)
    except ValueError as error:
        fail(str(error), code=2)
    fields: dict[str, object] = {"scope": scope, "name": name, "rate": rate, "burst": burst}
    say(f"{scope} {name}: {rate:g} a second, {burst:g} at once", fields, output)


def remove(
    *,
    owner: Owner = None,
    key: Key = None,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Remove a rate, so that there is none; code 1 if there was none."""
    scope, name = _whose(owner, key)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> bool:
        return await rates.remove(connection, scope, name, actor=who)

    if not ask(database_url, verb):
        fail(f"{scope} {name} has no rate")
    say(f"{scope} {name}: not limited", {"scope": scope, "name": name}, output)


def _whose(owner: str | None, key: str | None) -> tuple[Scope, str]:
    if (owner is None) == (key is None):
        fail("name either --owner or --key", code=2)
    return ("key", key) if key is not None else ("owner", owner or "")
