"""Objects by their paths alone, whatever names them: listed, looked at, deleted."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from taskbell.shared.storage.location import Found, Stored, owner_segment
from taskbell.shared.storage.troubles import Asking

if TYPE_CHECKING:  # an extra, loaded by those alone who set up a storage
    from obstore.store import ObjectStore

_KINDS: Final[tuple[Stored, ...]] = ("payload", "result")
_CHUNK: Final = 1000


class Places:
    """Every call and page of a listing ends within ``deadline`` seconds. Raises ``StorageAway``."""

    def __init__(self, store: "ObjectStore", root: Path | None, deadline: float) -> None:
        """``root``: the directory, if the storage is one."""
        self._store: Any = store  # its typing knows no store that may be any of them
        self._root = root
        self._asking = Asking(deadline)
        # Credentials that sign nothing say nothing about the store.
        self._signing = Asking(deadline)

    @property
    def is_away(self) -> bool:
        """Whether its last use raised ``StorageAway``; nobody is asked."""
        return self._asking.is_away

    async def listed(self, after: str, limit: int) -> list[Found]:
        """Give the next payloads and results behind the path ``after``, in the paths' order."""
        found: list[Found] = []
        try:
            async with self._asking.bounded("list"):
                for kind in _KINDS:
                    if after < f"{kind}0" and len(found) < limit:  # "0" follows "/"
                        offset = after if after.startswith(f"{kind}/") else None
                        found += await self._page(kind, offset, limit - len(found))
        except FileNotFoundError:
            raise self._asking.root_missing() from None
        return found

    async def _page(self, kind: Stored, offset: str | None, limit: int) -> list[Found]:
        page: list[Found] = []
        async for chunk in self._store.list(kind, offset=offset, chunk_size=_CHUNK):
            page += _found(chunk)
            # A directory gives its files as they come; the others have an order to end in.
            page = sorted(page)[:limit]
            if len(page) == limit and self._root is None:
                break
        return page

    async def of_owner(self, owner_id: str) -> AsyncIterator[list[Found]]:
        """Give what lies in an owner's part in pages, in no order: also what its clients put."""
        for kind in (*_KINDS, "client"):
            chunks = self._store.list(f"{kind}/{owner_segment(owner_id)}", chunk_size=_CHUNK)
            while chunk := await self._next(chunks):
                yield _found(chunk)

    async def _next(self, chunks: Any) -> Any:
        try:
            async with self._asking.bounded("list"):
                return await anext(chunks, None)
        except FileNotFoundError:
            raise self._asking.root_missing() from None

    async def head(self, path: str, length: int) -> bytes | None:
        """Return the first bytes of an object that has so many; None if it is not there."""
        if not length:
            return b""
        try:
            async with self._asking.bounded("read"):
                return bytes(await self._store.get_range_async(path, start=0, length=length))
        except FileNotFoundError:
            return None

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; those that are gone already are fine."""
        async with self._asking.bounded("delete"):
            try:
                await self._store.delete_async(list(paths))
            except FileNotFoundError:  # and nobody says which, nor what became of the others
                for path in paths:
                    try:
                        await self._store.delete_async(path)
                    except FileNotFoundError:
                        continue


def _found(chunk: Any) -> list[Found]:
    return [Found(each["path"], each["last_modified"], each["size"]) for each in chunk]
