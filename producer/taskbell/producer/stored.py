"""Payloads that are looked after before the transaction: encoded and, if large, stored."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from taskbell.producer.payload import encode
from taskbell.producer.rules import require_owner
from taskbell.producer.typed_task import TypedTask, payload_of
from taskbell.shared.ids import TaskId, new_task_id
from taskbell.shared.limits import STORED_BYTES

if TYPE_CHECKING:
    from taskbell.producer.terms import Terms


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """The payload of one task, as ``put`` made it; enqueue it in place of the payload.

    ``task_id``, ``owner_id``: the task and the owner it is for, and no others. ``location``: the
    object it is kept in; None if it goes in the row. It stays in memory, too: a repeated request is
    known by its content, wherever that is kept.
    """

    task_id: TaskId
    owner_id: str
    location: str | None
    encoded: str = field(repr=False)

    @classmethod
    def offered(cls, location: str, owner_id: str) -> Self:
        """An object that somebody else wrote: a repeated request is known by its location."""
        return cls(new_task_id(), owner_id, location, location)


class Parcel(NamedTuple):
    """A payload on its way: what it becomes, and what has to be stored first, if anything."""

    payload: StoredPayload
    body: bytes | None


def parcel_of(payload: object, owner_id: str | None, terms: "Terms") -> Parcel:
    """Encode a payload and, if it must be stored, seal it; raises ``InvalidTask``.

    ``LookupError``: its owner's key is not known yet.
    """
    owner = terms.owner_of(None if owner_id is None else require_owner("owner_id", owner_id))
    content = payload_of(payload) if isinstance(payload, TypedTask) else payload
    storage = terms.storage
    encoded = encode(content, terms.payload_limit if storage is None else STORED_BYTES)
    stored = StoredPayload(new_task_id(), owner, None, encoded)
    if storage is None:
        return Parcel(stored, None)
    body = encoded.encode()
    if len(body) <= storage.inline_bytes:
        return Parcel(stored, None)
    return Parcel(stored, terms.sealed(stored.task_id, owner, body) if terms.seals else body)
