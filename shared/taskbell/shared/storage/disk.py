"""A directory as storage: what was written must be there after a power failure."""

import os
from pathlib import Path


def flush(root: Path, path: str) -> None:
    """Make a new file durable, and the entries of the directories down to it.

    The row that names it is committed next, and a commit survives the power.
    """
    file = root / path
    _flush(file)
    for directory in file.parents:
        _flush(directory)
        if directory == root:
            break


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
