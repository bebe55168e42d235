"""``python -m taskbell.relay`` is ``taskbell relay``."""

import typer

from taskbell.relay.command import relay

if __name__ == "__main__":
    typer.run(relay)
