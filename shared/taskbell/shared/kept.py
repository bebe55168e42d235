"""A payload or a result as it is kept, in the row, sealed or as an object, and its value."""

import json
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.errors import StorageAway, Unreadable
from taskbell.shared.sealing import Kind, Seals, is_sealed

if TYPE_CHECKING:  # its library is an extra
    from taskbell.shared.storage import Storage


class Kept(NamedTuple):
    """The value itself, sealed octets, or the location of an object; nothing where none is."""

    owner_id: str
    value: object
    sealed: bytes | None
    location: str | None


async def value_of(
    kept: Kept,
    kind: Kind,
    task_id: UUID,
    *,
    runner: Runner,
    seals: Seals | None,
    storage: "Storage | None",
) -> object:
    """Fetch it and open it, as far as that needs doing.

    Raises ``StorageAway`` and ``Unreadable``, also without the storage or the keys it takes; and
    ``ValueError`` or ``RecursionError`` for an object in which a client wrote what is no JSON.
    """
    sealed = kept.sealed
    if kept.location is not None:
        if storage is None:
            raise StorageAway(
                f"the {kind.name.lower()} is kept as an object, and no storage is set"
            )
        body = await storage.get(kept.location)
        if not is_sealed(body):
            return json.loads(body)
        sealed = body
    if sealed is None:
        return kept.value
    if seals is None:
        raise Unreadable("key unknown")
    await seals.learn(runner, sealed=[sealed])
    return json.loads(seals.open(kind, task_id, kept.owner_id, sealed))
