"""``python -m taskbell.consumer module:app``."""

import typer

from taskbell.consumer.command import register

if __name__ == "__main__":
    # Pretty tracebacks may show local variables, and with them passwords.
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    register(application)
    application()
