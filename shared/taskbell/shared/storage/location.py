"""Where an object is, what it must hash to and how long it is: the text in the row."""

import re
from datetime import datetime
from hashlib import sha256
from secrets import token_hex
from typing import Final, Literal, NamedTuple, Self
from uuid import UUID

Stored = Literal["payload", "result"]
"""What we write ourselves; ``client/`` is for the objects of callers, which we never delete."""

_WRITTEN: Final = re.compile(
    r"(?P<path>(?:payload|result|client)/[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9._-]{1,128}){1,4})"
    r"#sha256=(?P<sha256>[0-9a-f]{64})&size=(?P<size>0|[1-9][0-9]{0,15})"
)
_OURS: Final = re.compile(
    r"(?:payload|result)/(?:_|[0-9a-f]{24})/(?P<task_id>[0-9a-f]{32})/[0-9a-f]{16}"
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

    @classmethod
    def fresh(cls, kind: Stored, task_id: UUID, owner_id: str, body: bytes) -> Self:
        """Name a place where nothing is yet."""
        path = f"{kind}/{owner_segment(owner_id)}/{task_id.hex}/{token_hex(8)}"
        return cls(path, sha256(body).hexdigest(), len(body))

    def fits(self, body: bytes) -> bool:
        """Whether this is what was written."""
        return len(body) == self.size and sha256(body).hexdigest() == self.sha256

    def is_offered_by(self, owner_id: str) -> bool:
        """Whether it is where this owner's own objects belong."""
        return self.path.startswith(f"client/{owner_segment(owner_id)}/")

    def __str__(self) -> str:
        return f"{self.path}#sha256={self.sha256}&size={self.size}"


class Found(NamedTuple):
    """An object that lies in the storage."""

    path: str
    written_at: datetime
    """By the store's clock."""
    size: int


def owner_segment(owner_id: str) -> str:
    """Name an owner's part of the storage without telling the owner."""
    return sha256(owner_id.encode()).hexdigest()[:_SEGMENT] if owner_id else "_"


def task_of(path: str) -> UUID | None:
    """Name the task of an object that we wrote; None for whatever else lies there."""
    found = _OURS.fullmatch(path)
    return None if found is None else UUID(found["task_id"])
