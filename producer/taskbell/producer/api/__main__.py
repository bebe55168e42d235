"""``python -m taskbell.producer.api``: the command alone, for containers."""

import typer

from taskbell.producer.api.command import register

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    register(app)
    app()
