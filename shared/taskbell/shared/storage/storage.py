"""Objects under one root, each call with a deadline."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from taskbell.shared.storage.location import Location

Stored = Literal["payload", "result"]


class Storage:
    """Every call ends within ``deadline`` seconds.

    Raises ``StorageAway``; reading also ``Unreadable`` ("missing", "changed").
    """

    inline_bytes: int
    """What is longer than this is kept here instead of in the row."""

    @classmethod
    def at(cls, url: str, *, inline_bytes: int, deadline: float = 30.0) -> "Storage":
        """Open ``file://``, ``s3://``, ``gs://`` or ``az://``; raises ``ValueError``."""
        raise NotImplementedError

    async def put(self, kind: Stored, task_id: UUID, owner_id: str, body: bytes) -> str:
        """Write an object; returns the text for the row."""
        raise NotImplementedError

    def put_blocking(self, kind: Stored, task_id: UUID, owner_id: str, body: bytes) -> str:
        """The same for a thread."""
        raise NotImplementedError

    async def get(self, location: str) -> bytes:
        """Return an object, its size and hash verified."""
        raise NotImplementedError

    def get_blocking(self, location: str) -> bytes:
        """The same for a thread."""
        raise NotImplementedError

    async def link(self, location: str, seconds: int) -> str | None:
        """Sign a link to an object; None where the store signs nothing."""
        raise NotImplementedError

    async def offered(self, location: str, owner_id: str) -> Location:
        """Look at an object a client put under ``client/<its segment>/``; raises ``ValueError``."""
        raise NotImplementedError

    def listed(self, after: str, limit: int) -> AsyncIterator[tuple[str, datetime]]:
        """Paths of payloads and results behind ``after``, and when they were written."""
        raise NotImplementedError

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; those that are gone already are fine."""
        raise NotImplementedError
