"""``python -m taskbell.relay`` is ``taskbell relay``."""

import typer

from taskbell.relay.command import relay

if __name__ == "__main__":
    # Pretty tracebacks show local variables, and with them passwords.
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(relay)
    app()
