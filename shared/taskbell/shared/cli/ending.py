"""How a command ends badly: one line on stderr and an exit code, no traceback."""

from typing import NoReturn

import typer

__all__ = ["fail"]


def fail(sentence: str, *, code: int = 1) -> NoReturn:
    """End the command; 1 says the answer or the surroundings are bad, 2 the call itself."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)
