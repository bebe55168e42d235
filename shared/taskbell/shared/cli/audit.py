"""`taskbell audit`: does the database keep the invariants that everything else rests on?"""

from typing import Annotated

import typer

from taskbell.shared import audit as audits
from taskbell.shared.audit import Finding
from taskbell.shared.cli.asking import DatabaseUrl, ask
from taskbell.shared.cli.output import Output, OutputFormat, fields_of, show_many
from taskbell.shared.database import DedicatedConnection

__all__ = ["audit", "register"]


def register(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    *,
    patience: Annotated[
        float, typer.Option(min=0.0, help="Seconds that maintenance has to clear what is late.")
    ] = 5.0,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
) -> None:
    """Look for tasks that break an invariant; changes nothing, code 1 if there are any."""

    async def verb(connection: DedicatedConnection) -> list[Finding]:
        found = await audits.look(connection)
        return found + await audits.look_for_neglect(connection, patience)

    findings = ask(database_url, verb)
    if findings or output is OutputFormat.JSON:
        show_many([fields_of(finding) for finding in findings], ("finding", "task_id"), output)
    else:
        typer.echo("nothing found")
    if findings:
        raise typer.Exit(1)
