"""What of an owner would outlive its key: pieces in rows, and objects that no row names any more.

An object may lie there without a row: a transaction rolled back, a payload sealed anew, an object
that a client put and never submitted. An erasure must know of those, too.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from taskbell.shared.connections import Runner
from taskbell.shared.errors import StorageAway
from taskbell.shared.resealing import BEGINNING, headed, pages
from taskbell.shared.sealed_pieces import pieces_of
from taskbell.shared.sealing.envelope import HEAD_BYTES, key_id_of
from taskbell.shared.statements import data_key
from taskbell.shared.statements import storage as statements
from taskbell.shared.storage import Storage
from taskbell.shared.storage.location import Found, task_of

__all__ = ["Remains", "delete_unnamed", "remaining"]

_AT_ONCE: Final = 8


class Remains(NamedTuple):
    """What is not sealed by a key and stays readable without it."""

    pieces: int
    """Payloads, results, errors and tracebacks of tasks, wherever they are kept."""
    objects: int | None
    """Objects that no row names; None: there is no storage to look at."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.pieces or self.objects)


async def remaining(runner: Runner, storage: Storage | None, owner_id: str) -> Remains:
    """Count what of an owner no key of its own sealed; raises ``StorageAway``."""
    keys = await _keys_of(runner, owner_id)
    count = 0
    async for page in pages(runner, owner_id, BEGINNING):
        for row in page:
            for piece in pieces_of(row):
                known = await headed(storage, piece)
                count += known is not None and known.key_id not in keys
    if storage is None:
        return Remains(count, None)
    unnamed = _unnamed(runner, storage, owner_id, keys)
    return Remains(count, sum([len(paths) async for paths in unnamed]))


async def delete_unnamed(runner: Runner, storage: Storage, owner_id: str) -> int:
    """Delete an owner's objects that no row names and no key of its own sealed; returns how many.

    One of a transaction that is still open goes, too: its task will find no payload. Raises
    ``StorageAway``, also for the storage of another database.
    """
    (row,) = await runner.run(statements.DATABASE_NAME)
    if not await storage.belongs_to(row.name):
        raise StorageAway("the root of the storage is marked as another database's")
    keys = await _keys_of(runner, owner_id)
    count = 0
    async for paths in _unnamed(runner, storage, owner_id, keys):
        await storage.delete(paths)
        count += len(paths)
    return count


async def _keys_of(runner: Runner, owner_id: str) -> frozenset[str | None]:
    """Name the owner's keys, the erased ones too: what one of those sealed is lost already."""
    rows = await runner.run(data_key.ALL_OF_OWNER, owner_id=owner_id)
    return frozenset(row.key_id for row in rows)


async def _unnamed(
    runner: Runner, storage: Storage, owner_id: str, keys: frozenset[str | None]
) -> AsyncIterator[list[str]]:
    async for page in storage.of_owner(owner_id):
        rows = await runner.run(
            statements.UNNAMED,
            owner_id=owner_id,
            task_ids=[task_of(each.path) for each in page],
            paths=[each.path for each in page],
        )
        names = {row.path for row in rows}
        found = [each for each in page if each.path in names]
        paths: list[str] = []
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            stays = await asyncio.gather(*(_stays(storage, each, keys) for each in some))
            paths += [each.path for each, readable in zip(some, stays, strict=True) if readable]
        if paths:
            yield paths


async def _stays(storage: Storage, found: Found, keys: frozenset[str | None]) -> bool:
    """Whether an object is readable without these keys."""
    if found.path.startswith("client/"):  # whatever it begins with, it was not us who wrote it
        return True
    head = await storage.head(found.path, min(HEAD_BYTES, found.size))
    return head is not None and key_id_of(head) not in keys
