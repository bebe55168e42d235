"""``python -m taskbell.consumer module:app``."""

import typer

from taskbell.consumer.command import consumer

if __name__ == "__main__":
    typer.run(consumer)
