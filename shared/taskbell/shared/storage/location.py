"""Where an object is, what it must hash to and how long it is: the text in the row."""

import re
from hashlib import sha256
from typing import Final, NamedTuple, Self

_WRITTEN: Final = re.compile(
    r"(?P<path>(?:payload|result|client)/[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9._-]{1,128}){1,4})"
    r"#sha256=(?P<sha256>[0-9a-f]{64})&size=(?P<size>0|[1-9][0-9]{0,15})"
)
_SEGMENT: Final = 24


class Location(NamedTuple):
    """``payload/<owner>/<task id>/<random>#sha256=…&size=…``, relative to the storage's root."""

    path: str
    sha256: str
    size: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a row's text; raises ``ValueError``."""
        found = _WRITTEN.fullmatch(text)
        if found is None or any(part.startswith(".") for part in found["path"].split("/")):
            raise ValueError("not the location of an object: path#sha256=<64 hex>&size=<bytes>")
        return cls(found["path"], found["sha256"], int(found["size"]))

    def __str__(self) -> str:
        return f"{self.path}#sha256={self.sha256}&size={self.size}"


def owner_segment(owner_id: str) -> str:
    """Name an owner's part of the storage without telling the owner."""
    return sha256(owner_id.encode()).hexdigest()[:_SEGMENT] if owner_id else "_"
