"""Keys that seal: make one, seal anew, owners' own keys."""

import secrets
from base64 import b64encode
from datetime import UTC, datetime
from typing import Annotated, NamedTuple
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
from taskbell.shared.remains import Remains, delete_unnamed, remaining
from taskbell.shared.resealing import BEGINNING, Counts, Resealing
from taskbell.shared.sealing import Seals
from taskbell.shared.sealing.envelope import KEY_BYTES
from taskbell.shared.settings import Settings, sentence
from taskbell.shared.storage import Storage

__all__ = ["create_owner_key", "erase_owner_key", "extend", "new_seal_key", "reseal"]

_NO_RING = "no keys that seal: set TASKBELL_SEAL_KEYS or TASKBELL_SEAL_KEYS_FILE"
_NOT_LOOKED = "objects were not looked for: TASKBELL_STORAGE_URL is not set"

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
    typer.echo(f"{name}:{b64encode(secrets.token_bytes(KEY_BYTES)).decode()}")


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
    delete_objects: Annotated[
        bool,
        typer.Option(
            "--delete-objects",
            help="Delete first the owner's objects that it did not seal and that no task names; "
            "whoever is submitting a large payload at that moment loses it.",
        ),
    ] = False,
    actor: Actor = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Erase an owner's key: all it sealed is unreadable for ever, wherever copies are."""
    _, storage = _parts(database_url)
    if delete_objects and storage is None:
        fail("no storage to delete from: set TASKBELL_STORAGE_URL", code=2)

    async def verb(connection: DedicatedConnection) -> _Erased:
        try:
            if await owner_keys.key_of(connection, owner) is not None and not yes:
                fail(_warning(owner, await remaining(connection, storage, owner)), code=2)
            return await _erase(
                connection, storage, owner, delete_objects=delete_objects, actor=myself(actor)
            )
        except StorageAway as error:
            fail(str(error))

    _tell(owner, ask(database_url, verb))


class _Erased(NamedTuple):
    key_id: str | None
    deleted: int
    left: Remains


async def _erase(
    connection: DedicatedConnection,
    storage: Storage | None,
    owner: str,
    *,
    delete_objects: bool,
    actor: str,
) -> _Erased:
    if await owner_keys.key_of(connection, owner) is None:
        return _Erased(None, 0, Remains(0, 0))
    deleted = 0
    if delete_objects and storage is not None:
        deleted = await delete_unnamed(connection, storage, owner)
    left = await remaining(connection, storage, owner)
    return _Erased(await owner_keys.erase(connection, owner, actor=actor), deleted, left)


def _tell(owner: str, erased: _Erased) -> None:
    if erased.key_id is None:
        fail(f"owner {owner!r} has no key of its own")
    typer.echo(f"{erased.key_id} of owner {owner!r} is erased; processes forget it within 30 s")
    if erased.deleted:
        typer.echo(f"{erased.deleted} objects that it had not sealed and no task named are deleted")
    if erased.left.objects is None:
        typer.echo(_NOT_LOOKED)
    if erased.left:
        fail(f"{_told(erased.left)} were not sealed by it and stay readable")


def _warning(owner: str, left: Remains) -> str:
    warning = f"this makes what the key of owner {owner!r} sealed unreadable for ever"
    if left:
        warning += f"; {_told(left)} are not sealed by it and would stay readable"
    if left.pieces:
        warning += "; seal those first by: taskbell keys reseal --clear --owner …"
    if left.objects:
        warning += "; delete the objects that no task names by --delete-objects"
    if left.objects is None:
        warning += f"; {_NOT_LOOKED}"
    return f"{warning}; repeat it with --yes"


def _told(left: Remains) -> str:
    told = [f"{left.pieces} payloads, results and errors"] if left.pieces else []
    if left.objects:
        told.append(f"{left.objects} objects that no task names")
    return " and ".join(told)


def _parts(database_url: str | None) -> tuple[Seals | None, Storage | None]:
    try:
        settings = Settings.read(database_url=database_url)
    except ValidationError as error:
        fail(sentence(error), code=2)
    try:
        return settings.seals, settings.storage
    except ValueError as error:
        fail(str(error), code=2)
