"""How a command ends badly: one line on stderr and an exit code, no traceback."""

from typing import NoReturn

import typer

__all__ = ["fail", "told"]


def fail(sentence: str, *, code: int = 1) -> NoReturn:
    """End the command; 1 says the answer or the surroundings are bad, 2 the call itself."""
    raise typer.Exit(told(sentence, code=code))


def told(sentence: str, *, code: int = 1) -> int:
    """Say it and return the code, for a process that ends by returning one."""
    typer.echo(sentence, err=True)
    return code
