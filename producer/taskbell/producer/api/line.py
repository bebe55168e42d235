"""Partition keys as they are kept: each owner's apart, so that nobody stands in another's line.

A queue's lines know no owners: whoever names the same key waits in the same line, which is what
services that share a database want, and strangers behind one HTTP interface do not.
"""

import re
from typing import Final

from taskbell.shared.errors import InvalidTask
from taskbell.shared.storage.location import owner_segment

_APART: Final = re.compile(r"[0-9a-f]{24}\.")


def line_of(owner_id: str, partition_key: str) -> str:
    """Return the key that is kept; raises ``InvalidTask`` for one that looks like another's."""
    if owner_id:
        return f"{owner_segment(owner_id)}.{partition_key}"
    if _APART.match(partition_key):
        raise InvalidTask("partition_key", "must not begin with 24 hexadecimal digits and a dot")
    return partition_key


def key_of(owner_id: str, line: str | None) -> str | None:
    """Return the key as the owner gave it."""
    if line is None or not owner_id:
        return line
    return line.removeprefix(f"{owner_segment(owner_id)}.")
