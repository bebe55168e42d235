"""Keys that seal: make one, seal anew, owners' own keys."""

import secrets
from base64 import b64encode
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer
from pydantic import ValidationError

from taskbell.shared import owner_keys
from taskbell.shared.cli.asking import Actor, DatabaseUrl, ask, myself
from taskbell.shared.cli.ending import fail
from taskbell.shared.cli.output import Output, OutputFormat, fields_of, show_one
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.errors import DatabaseAway, StorageAway
from taskbell.shared.limits import OWNER_BYTES
from taskbell.shared.resealing import BEGINNING, Counts, Resealing, remaining
from taskbell.shared.sealing import Seals
from taskbell.shared.settings import Settings, sentence
from taskbell.shared.storage import Storage

__all__ = ["create_owner_key", "erase_owner_key", "extend", "new_seal_key", "reseal"]

_KEY_BYTES = 32
_NO_RING = "no keys that seal: set TASKBELL_SEAL_KEYS or TASKBELL_SEAL_KEYS_FILE"

OwnerArgument = Annotated[str, typer.Argument(metavar="OWNER", help="Whose key it is.")]


def extend(commands: typer.Typer) -> None:
    """Add the commands to ``taskbell keys``."""
    commands.command("new-seal-key")(new_seal_key)
    commands.command("reseal")(reseal)
    owners = typer.Typer(help="Keys of single owners.", no_args_is_help=True)
    owners.command("create")(create_owner_key)
    owners.command("erase")(erase_owner_key)
    commands.add_typer(owners, name="owner-key")


def new_seal_key(
    key_id: Annotated[
        str | None, typer.Option("--id", help="What it is called; today's date if not given.")
    ] = None,
) -> None:
    """Print a new key as TASKBELL_SEAL_KEYS takes it; put it first, keep the old ones behind it."""
    name = key_id or datetime.now(UTC).date().isoformat()
    typer.echo(f"{name}:{b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}")


def reseal(
    *,
    owner: Annotated[str | None, typer.Option(help="Only what is this owner's.")] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Seal also what is kept in the clear.")
    ] = False,
    after: Annotated[UUID, typer.Option(help="Go on behind this task.")] = BEGINNING,
    actor: Actor = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Seal payloads, results and errors by the keys that seal now; may be stopped and repeated."""
    seals, storage = _parts(database_url)
    if seals is None:
        fail(_NO_RING, code=2)

    async def verb(connection: DedicatedConnection) -> Counts:
        run = Resealing(connection, seals, storage, owner_id=owner, clear=clear, after=after)
        try:
            return await run.run(actor=myself(actor))
        except (DatabaseAway, StorageAway) as error:
            fail(f"{error}; go on with --after {run.after}")

    counts = ask(database_url, verb)
    words = "nothing left to seal" if counts.is_done else "repeat it until nothing is left to seal"
    show_one(words, fields_of(counts), output)


def create_owner_key(
    owner: OwnerArgument,
    *,
    actor: Actor = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Give an owner a key of its own, which may be erased alone."""
    seals, _ = _parts(database_url)
    if seals is None:
        fail(_NO_RING, code=2)
    if not 0 < len(owner.encode()) <= OWNER_BYTES:
        fail(f"an owner's name has 1 to {OWNER_BYTES} bytes", code=2)

    async def verb(connection: DedicatedConnection) -> str | None:
        return await owner_keys.create(connection, seals, owner, actor=myself(actor))

    key_id = ask(database_url, verb)
    if key_id is None:
        fail(f"owner {owner!r} has a key of its own already")
    typer.echo(f"{key_id} seals for owner {owner!r} within 30 s")
    typer.echo("then seal by it what is there: taskbell keys reseal --clear --owner …")


def erase_owner_key(
    owner: OwnerArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Really.")] = False,
    actor: Actor = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Erase an owner's key: all it sealed is unreadable for ever, wherever copies are."""
    _, storage = _parts(database_url)

    async def verb(connection: DedicatedConnection) -> tuple[str | None, int]:
        key_id = await owner_keys.key_of(connection, owner)
        if key_id is None:
            return None, 0
        try:
            left = await remaining(connection, storage, owner, key_id)
        except StorageAway as error:
            fail(str(error))
        if not yes:
            fail(_warning(owner, left), code=2)
        return await owner_keys.erase(connection, owner, actor=myself(actor)), left

    key_id, left = ask(database_url, verb)
    if key_id is None:
        fail(f"owner {owner!r} has no key of its own")
    typer.echo(f"{key_id} of owner {owner!r} is erased; processes forget it within 30 s")
    if left:
        fail(f"{left} payloads, results and errors were not sealed by it and stay readable")


def _warning(owner: str, left: int) -> str:
    warning = f"this makes what the key of owner {owner!r} sealed unreadable for ever"
    if left:
        warning += (
            f", and {left} payloads, results and errors are not sealed by it: seal them first "
            "(taskbell keys reseal --clear --owner …)"
        )
    return f"{warning}; repeat it with --yes"


def _parts(database_url: str | None) -> tuple[Seals | None, Storage | None]:
    try:
        settings = Settings.read(database_url=database_url)
    except ValidationError as error:
        fail(sentence(error), code=2)
    try:
        return settings.seals, settings.storage
    except ValueError as error:
        fail(str(error), code=2)
