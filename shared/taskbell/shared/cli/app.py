"""Puts the command line together from what is installed.

Shared may import no role, yet `taskbell relay` is one of its commands: each role brings an entry
point of the group `taskbell.commands`, a callable `register(app: typer.Typer) -> None`.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

import typer

from taskbell.shared.cli import (
    audit,
    dead_letters,
    keys,
    limits,
    migrate,
    queues,
    roles,
    tasks,
    version,
)
from taskbell.shared.cli.ending import fail

__all__ = ["GROUP", "build"]

GROUP = "taskbell.commands"


def build(found: Iterable[EntryPoint] | None = None) -> typer.Typer:
    """Give the whole application; `found` defaults to the entry points that are installed."""
    # Pretty tracebacks show local variables, and with them passwords.
    app = typer.Typer(
        help="Background tasks: Postgres holds the task, RabbitMQ only rings the bell.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for own in (tasks, dead_letters, queues, keys, limits, audit, migrate, roles, version):
        own.register(app)
    commands = entry_points(group=GROUP) if found is None else found
    for entry in sorted(commands, key=lambda entry: entry.name):
        _add(app, entry)
    return app


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    """Let the role register its commands; one that cannot be imported must not take the rest."""
    try:
        register = entry.load()
    except (ImportError, AttributeError) as error:
        _explain(app, entry.name, str(error))
    else:
        register(app)


def _explain(app: typer.Typer, name: str, reason: str) -> None:
    def unavailable() -> None:
        fail(f"taskbell {name} cannot be loaded: {reason}", code=2)

    app.command(
        name,
        help=f"Not available: {reason}",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(unavailable)
