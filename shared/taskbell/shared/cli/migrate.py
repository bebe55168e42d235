"""`taskbell migrate`: the schema, for operators and for DBAs who run the SQL themselves."""

from typing import Annotated

import typer

from taskbell.shared import migration
from taskbell.shared.cli.ending import fail
from taskbell.shared.migration import MigrationError
from taskbell.shared.schema import SchemaState

__all__ = ["DatabaseUrl", "migrate", "register", "required"]

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url", envvar="TASKBELL_DATABASE_URL", help="postgresql://user:password@host/db"
    ),
]
Sql = Annotated[
    bool, typer.Option("--sql", help="Print the script for an empty database and change nothing.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Only tell whether the schema fits; exit code 1 if not.")
]


EffectsOnly = Annotated[
    bool,
    typer.Option(
        "--effects-only",
        help="Make the table of dedup keys alone, in a business database that has effects.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("migrate")(migrate)


def migrate(
    *,
    database_url: DatabaseUrl = None,
    sql: Sql = False,
    check: Check = False,
    effects_only: EffectsOnly = False,
) -> None:
    """Bring the database's schema to what this version needs; any number may run it at once."""
    if check and (sql or effects_only):
        fail("--check asks a database, and only that: choose one", code=2)
    if sql:
        typer.echo(migration.effect_table_sql() if effects_only else migration.sql(), nl=False)
        return
    database_url = required(database_url)
    if effects_only:
        _install_effects(database_url)
        return
    state = _reached(database_url, only_look=check)
    if not state.ready:
        fail(str(state))
    typer.echo(str(state))


def required(database_url: str | None) -> str:
    """Return the URL; without one the command ends."""
    if not database_url:
        fail("name the database by --database-url or TASKBELL_DATABASE_URL", code=2)
    return database_url


def _install_effects(database_url: str) -> None:
    try:
        migration.install_effects(database_url)
    except MigrationError as error:
        fail(str(error))
    typer.echo("the table of dedup keys is there")


def _reached(database_url: str, *, only_look: bool) -> SchemaState:
    try:
        if not only_look:
            migration.upgrade(database_url)
        return migration.check(database_url)
    except MigrationError as error:
        fail(str(error))
