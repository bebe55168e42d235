"""The console script `taskbell`; installed with every role, usable with the extra `cli`."""

import sys

__all__ = ["main"]

# What the extra brings. Any other missing module is a fault and keeps its traceback.
EXTRA = frozenset({"alembic", "pydantic_settings", "rich", "structlog", "typer"})
HINT = "taskbell needs its command line: pip install 'taskbell-shared[cli]'\n"


def main() -> int:
    """Run the command line; without the extra say in one line what to install and answer 2."""
    try:
        # Here and not above: a producer's environment has this script but not the extra.
        from taskbell.shared.cli.app import build  # noqa: PLC0415 - see the line above
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        sys.stderr.write(HINT)
        return 2
    build()(prog_name="taskbell")
    return 0
