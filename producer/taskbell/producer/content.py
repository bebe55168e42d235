"""Where the payload of a task is kept: in its row, in its row and sealed, or as an object."""

from typing import TypeAlias
from uuid import UUID

from taskbell.producer.new_task import NewTask
from taskbell.producer.payload import require_size
from taskbell.producer.stored import StoredPayload
from taskbell.producer.terms import Terms
from taskbell.shared.errors import InvalidTask


class Discreet(str):
    """JSON that drivers send as any text; error messages and statement logs do not repeat it."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Stand in for the payload where parameters are shown to people."""
        return "'…'"


Content: TypeAlias = tuple[str | None, bytes | None, str | None]
"""A payload in the clear, sealed, or the location of one that is stored: exactly one of them."""


def content_of(request: NewTask, task_id: UUID, owner_id: str, terms: Terms) -> Content:
    """Decide, and seal if need be; raises ``InvalidTask``.

    ``LookupError``: the owner's key is not known yet.
    """
    stored = request.payload
    if isinstance(stored, StoredPayload):
        if owner_id != stored.owner_id:
            raise InvalidTask("owner_id", "is not the one for whom the payload was stored")
        if stored.location is not None:
            return None, None, stored.location
    require_size(request.encoded, terms.payload_limit)
    if terms.seals is None:
        return Discreet(request.encoded), None, None
    return None, terms.sealed(task_id, owner_id, request.encoded.encode()), None
