"""Keys of the HTTP interface: create, list, rotate, revoke."""

import re
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from taskbell.shared import access
from taskbell.shared.access import ApiKey, Grant, NewKey, Rotated, Scope
from taskbell.shared.cli.asking import Actor, DatabaseUrl, Yes, ask, myself, require_yes
from taskbell.shared.cli.ending import fail
from taskbell.shared.cli.output import Output, OutputFormat, fields_of, say, show_many, show_one
from taskbell.shared.database import DedicatedConnection

__all__ = ["Scope", "create", "extend", "list_many", "revoke", "rotate", "show"]

_LISTED = ("prefix", "state", "owner_id", "label", "scopes", "expires_at", "last_used_at")
_SPAN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_ONCE: Final = "this is the only time the key is shown"


Prefix = Annotated[str, typer.Argument(help="The key's first characters: tbk_ and eight more.")]
Expires = Annotated[
    str | None, typer.Option(help="How long it is good: 90d, 12h, 30m; if not given, for ever.")
]


def extend(commands: typer.Typer) -> None:
    """Add the commands to ``taskbell keys``."""
    commands.command("create")(create)
    commands.command("list")(list_many)
    commands.command("show")(show)
    commands.command("rotate")(rotate)
    commands.command("revoke")(revoke)


def create(  # noqa: PLR0913 - each is an option of the command
    *,
    owner: Annotated[
        str, typer.Option(help="Whose tasks it reaches; '' for tasks that name no owner.")
    ],
    scope: Annotated[
        list[Scope], typer.Option(help="What it may do; repeat it. admin: all of it, to all.")
    ],
    label: Annotated[str, typer.Option(help="What people call it.")] = "",
    expires: Expires = None,
    rate: Annotated[
        float | None, typer.Option(help="Let it submit at most so many tasks a second …")
    ] = None,
    burst: Annotated[float | None, typer.Option(help="… and so many at once.")] = None,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a key and show it, once; only its SHA-256 is kept."""
    who = myself(actor)
    try:
        grant = Grant(owner, tuple(scope), label, _life(expires), rate, burst)
    except ValueError as error:
        fail(str(error), code=2)

    async def verb(connection: DedicatedConnection) -> NewKey:
        return await access.create(connection, grant, actor=who)

    _hand_over(ask(database_url, verb), {}, output)


def list_many(
    *,
    owner: Annotated[str | None, typer.Option(help="Only of this owner.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 100,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """List keys, the newest first; ended ones too."""

    async def verb(connection: DedicatedConnection) -> list[ApiKey]:
        return await access.list_many(connection, owner_id=owner, limit=limit)

    show_many([fields_of(key) for key in ask(database_url, verb)], _LISTED, output)


def show(
    prefix: Prefix, *, output: Output = OutputFormat.TABLE, database_url: DatabaseUrl = None
) -> None:
    """Show what is known of one key."""
    named = _named(prefix)

    async def verb(connection: DedicatedConnection) -> ApiKey | None:
        return await access.find(connection, named)

    found = ask(database_url, verb)
    if found is None:
        fail(f"there is no key {named}")
    show_one(None, fields_of(found), output)


def rotate(
    prefix: Prefix,
    *,
    overlap: Annotated[str, typer.Option(help="How long the old one is still good.")] = "1h",
    expires: Expires = None,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Make the key that follows another one, with its owner, scopes, label and rate."""
    who, old, life, left = myself(actor), _named(prefix), _life(expires), _seconds(overlap)

    async def verb(connection: DedicatedConnection) -> Rotated | ApiKey | None:
        done = await access.rotate(connection, old, overlap=left, seconds=life, actor=who)
        return done or await access.find(connection, old)

    match ask(database_url, verb):
        case Rotated(key, _, old_expires_at):
            _hand_over(key, {"old": old, "old_expires_at": old_expires_at}, output)
        case ApiKey(state="good"):
            fail(f"{old} expires: say by --expires how long the new one is good", code=2)
        case ApiKey(state=state):
            fail(f"{old} is {state}: make another key instead")
        case None:
            fail(f"there is no key {old}")


def revoke(
    prefixes: Annotated[list[str], typer.Argument(help="Their first characters.")],
    *,
    yes: Yes = False,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """End keys for good; a process of the API believes one it knows for seconds more."""
    named = list(dict.fromkeys(_named(prefix) for prefix in prefixes))
    require_yes(len(named), "revoke", yes=yes)
    who = myself(actor)

    async def verb(connection: DedicatedConnection) -> list[str]:
        return await access.revoke_many(connection, named, actor=who)

    done = ask(database_url, verb)
    missed = len(named) - len(done)
    more = f", {missed} unknown or revoked before" if missed else ""
    say(f"{len(done)} revoked{more}", {"revoked": sorted(done), "not_revoked": missed}, output)
    if missed:
        raise typer.Exit(1)


def _hand_over(key: NewKey, more: Mapping[str, object], output: Output) -> None:
    """Show a key the only time there is."""
    show_one(_ONCE, {"prefix": key.prefix, "key": key.text, **more}, output)


def _named(prefix: str) -> str:
    """Take a prefix; anything else may be a secret, and is not repeated."""
    if not access.is_prefix(prefix):
        fail("a key is named by its prefix: tbk_ and eight characters, no more", code=2)
    return prefix


def _life(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = _seconds(text)
    try:
        access.require_life(seconds)
    except ValueError as error:
        fail(str(error), code=2)
    return seconds


def _seconds(text: str) -> float:
    found = _SPAN.fullmatch(text)
    if found is None:
        fail(f"{text!r} is no span of time: 90d, 12h, 30m or 45s", code=2)
    return min(float(found[1]) * _SECONDS[found[2]], access.LIFE_SECONDS)
