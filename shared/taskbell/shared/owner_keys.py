"""Keys of single owners: erase one, and all that it sealed is unreadable, wherever copies are."""

from taskbell.shared.connections import Runner
from taskbell.shared.sealing import Seals
from taskbell.shared.statements import data_key

__all__ = ["create", "erase", "key_of"]


async def create(runner: Runner, seals: Seals, owner_id: str, *, actor: str) -> str | None:
    """Give an owner a key of its own; returns the key's id, or None if it has one already.

    All processes seal with it 30 s later; what was sealed before wants to be resealed.
    """
    key_id, wrapped = seals.new_data_key(owner_id)
    created = await runner.run(
        data_key.CREATE, key_id=key_id, owner_id=owner_id, wrapped=wrapped, actor=actor
    )
    return key_id if created else None


async def key_of(runner: Runner, owner_id: str) -> str | None:
    """Return the id of the key that seals for an owner, if it has one of its own."""
    rows = await runner.run(data_key.OF_OWNERS, owner_ids=[owner_id])
    return rows[0].key_id if rows else None


async def erase(runner: Runner, owner_id: str, *, actor: str) -> str | None:
    """Erase an owner's key for ever; returns its id, or None if the owner has none.

    All processes have forgotten it 30 s later.
    """
    erased = await runner.run(data_key.ERASE, owner_id=owner_id, actor=actor)
    return erased[0].key_id if erased else None
