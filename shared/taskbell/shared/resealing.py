"""Seal anew what other keys sealed, so that those keys may go."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.database import Rows
from taskbell.shared.errors import StorageAway, Unreadable
from taskbell.shared.sealed_pieces import Kept, Piece, pieces_of, wants
from taskbell.shared.sealing import Seals, TaskSeal
from taskbell.shared.sealing.envelope import HEAD_BYTES, as_text, from_text
from taskbell.shared.statement import Statement
from taskbell.shared.statements import data_key
from taskbell.shared.statements import reseal as statements
from taskbell.shared.storage import Storage
from taskbell.shared.storage.location import Stored

__all__ = ["BEGINNING", "Counts", "Resealing", "headed", "pages"]

BEGINNING: Final = UUID(int=0)
_PAGE: Final = 1000
_HOPELESS: Final = ("erased", "key unknown")


@dataclass(slots=True)
class Counts:
    """What a run met and did."""

    tasks: int = 0
    owner_keys: int = 0
    """Keys of owners that were wrapped anew."""
    resealed: int = 0
    changed: int = 0
    """Written by somebody else meanwhile: met by the next run, if its seal is an old one."""
    erased: int = 0
    unreadable: int = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing was left to do: only then may old keys go."""
        return not (self.owner_keys or self.resealed or self.changed or self.unreadable)


class Resealing:
    """One run over all tasks, or one owner's; may be stopped anywhere and repeated.

    Raises ``DatabaseAway`` and ``StorageAway``; ``after`` then says from where to go on. Not for
    concurrent use.
    """

    def __init__(
        self,
        runner: Runner,
        seals: Seals,
        storage: Storage | None,
        *,
        owner_id: str | None = None,
        clear: bool = False,
        after: UUID = BEGINNING,
    ) -> None:
        """``clear``: seal as well what is kept in the clear."""
        self.counts = Counts()
        self.after = after
        self._runner = runner
        self._seals = seals
        self._storage = storage
        self._owner_id = owner_id
        self._clear = clear

    async def run(self, *, actor: str) -> Counts:
        """Seal everything by the keys of now. Two rows of the audit log say when it was."""
        key = self._seals.active_key_id
        asked: dict[str, object] = {"key_id": key, "clear": self._clear}
        await self._log(statements.BEGIN, actor, asked)
        await self._rewrap()
        async for page in pages(self._runner, self._owner_id, self.after):
            for row in page:
                await self._reseal_task(row)
                self.counts.tasks += 1
            self.after = page[-1].task_id
        done: dict[str, object] = {"key_id": key, "resealed": self.counts.resealed}
        await self._log(statements.END, actor, done)
        return self.counts

    async def _log(self, statement: Statement, actor: str, detail: dict[str, object]) -> None:
        subject = "every owner" if self._owner_id is None else self._owner_id
        await self._runner.run(statement, actor=actor, subject=subject, detail=json.dumps(detail))

    async def _rewrap(self) -> None:
        """The owners' keys are sealed by the ring themselves."""
        after = ""
        while rows := await self._runner.run(
            data_key.WRAPPED, after=after, owner_id=self._owner_id, limit=_PAGE
        ):
            for row in rows:
                await self._rewrap_one(row)
            after = rows[-1].key_id

    async def _rewrap_one(self, row: Any) -> None:
        try:
            new = self._seals.rewrapped(row.owner_id, row.wrapped)
        except Unreadable:
            self.counts.unreadable += 1
            return
        if new is not None and await self._runner.run(
            data_key.REWRAP, key_id=row.key_id, old=row.wrapped, new=new
        ):
            self.counts.owner_keys += 1

    async def _reseal_task(self, row: Any) -> None:
        for piece in pieces_of(row):
            known = await headed(self._storage, piece)
            if known is None:
                continue
            # For each piece: a page of large objects takes longer than a key is remembered.
            await self._seals.learn(self._runner, [row.owner_id], [known.head])
            if wants(known, self._seals.key_id_for(row.owner_id), clear=self._clear):
                await self._try(row, known)

    async def _try(self, row: Any, piece: Piece) -> None:
        try:
            self._require_key(row, piece)
            seal = self._seals.for_task(row.task_id, row.owner_id)
            if await self._reseal(row, piece, seal):
                self.counts.resealed += 1
            else:
                self.counts.changed += 1
        except Unreadable as error:
            if error.reason == "erased":
                self.counts.erased += 1
            else:
                self.counts.unreadable += 1

    def _require_key(self, row: Any, piece: Piece) -> None:
        """Ask for the key before the whole is fetched; of the head alone nothing can be opened."""
        head = from_text(piece.head) if isinstance(piece.head, str) else piece.head
        if head is None or piece.key_id is None:
            return
        try:
            self._seals.open(piece.column.kind, row.task_id, row.owner_id, head)
        except Unreadable as error:
            if error.reason in _HOPELESS:
                raise

    async def _reseal(self, row: Any, piece: Piece, seal: TaskSeal) -> Rows:
        """Put another seal on one piece; no rows if it is not there any more."""
        column, at = piece.column, {"task_id": row.task_id, "attempt": piece.attempt}
        clear = column.kept is Kept.CLEAR
        fetch = statements.fetch_clear(column.name) if clear else _fetch(piece)
        found = await self._runner.run(fetch, **at)
        if not found or found[0].old is None:
            return []
        old: bytes | str = found[0].old
        new = await self._sealed_anew(piece, seal, old)
        swap = statements.swap_clear(column.name) if clear else _swap(piece)
        return await self._runner.run(swap, old=old, new=new, **at)

    async def _sealed_anew(self, piece: Piece, seal: TaskSeal, old: bytes | str) -> bytes | str:
        kind, kept = piece.column.kind, piece.column.kept
        if kept is Kept.STORED:
            storage = _required(self._storage)
            body = self._opened(seal, piece, await storage.get(str(old)))
            stored: Stored = "payload" if piece.column.name == "payload_location" else "result"
            return await storage.put(stored, seal.task_id, seal.owner_id, seal.seal(kind, body))
        new = seal.seal(kind, self._opened(seal, piece, old))
        return as_text(new) if kept is Kept.TEXT else new

    def _opened(self, seal: TaskSeal, piece: Piece, found: bytes | str) -> bytes:
        if piece.key_id is None:
            return found.encode() if isinstance(found, str) else found
        body = from_text(found) if isinstance(found, str) else found
        if body is None:  # somebody wrote a clear text meanwhile: the swap will not find the old
            raise Unreadable("changed")
        return self._seals.open(piece.column.kind, seal.task_id, seal.owner_id, body)


async def pages(runner: Runner, owner_id: str | None, after: UUID) -> AsyncIterator[Rows]:
    """Give all tasks behind this one, or one owner's, as ``pieces_of`` takes them."""
    while rows := await runner.run(statements.LOOK, owner_id=owner_id, after=after, limit=_PAGE):
        yield rows
        after = rows[-1].task_id


async def headed(storage: Storage | None, piece: Piece) -> Piece | None:
    """Look which key sealed an object; None: it is gone and holds nothing any more."""
    if piece.location is None:
        return piece
    try:
        head = await _required(storage).beginning(piece.location, HEAD_BYTES)
    except Unreadable:
        return None
    return replace(piece, head=head)


def _required(storage: Storage | None) -> Storage:
    if storage is None:
        raise StorageAway("there are objects, and TASKBELL_STORAGE_URL is not set")
    return storage


def _fetch(piece: Piece) -> Statement:
    return statements.fetch(piece.column.table, piece.column.name)


def _swap(piece: Piece) -> Statement:
    return statements.swap(piece.column.table, piece.column.name)
