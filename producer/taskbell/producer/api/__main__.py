"""``python -m taskbell.producer.api`` is ``taskbell api``."""

import typer

from taskbell.producer.api.command import api

if __name__ == "__main__":
    # Pretty tracebacks show local variables, and with them passwords.
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(api)
    app()
