"""Objects under one root, each call with a deadline."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, Self, TypeVar
from uuid import UUID

from taskbell.shared.errors import StorageAway, Unreadable
from taskbell.shared.limits import STORED_BYTES
from taskbell.shared.sealing.envelope import is_sealed
from taskbell.shared.storage.disk import flush
from taskbell.shared.storage.location import Location, Stored
from taskbell.shared.storage.opening import open_store
from taskbell.shared.storage.places import Places

if TYPE_CHECKING:  # an extra, loaded by those alone who set up a storage
    from obstore.store import ObjectStore

_MARK: Final = "taskbell"
_ASIDE_BYTES: Final = 1024 * 1024

P = ParamSpec("P")
T = TypeVar("T")


class Storage(Places):
    """Every call ends within ``deadline`` seconds; blocking on a directory is as slow as its disk.

    Raises ``StorageAway``; reading also ``Unreadable`` ("missing", "changed").
    """

    inline_bytes: int
    """What is longer than this is kept here instead of in the row."""

    def __init__(
        self, store: "ObjectStore", root: Path | None, *, inline_bytes: int, deadline: float
    ) -> None:
        """``root``: the directory, if the storage is one."""
        super().__init__(store, root, deadline)
        self.inline_bytes = inline_bytes

    @classmethod
    def at(cls, url: str, *, inline_bytes: int, deadline: float = 30.0) -> Self:
        """Open ``file://``, ``s3://``, ``gs://`` or ``az://``; raises ``ValueError``."""
        store, root = open_store(url, deadline)
        return cls(store, root, inline_bytes=inline_bytes, deadline=deadline)

    async def put(self, kind: Stored, task_id: UUID, owner_id: str, body: bytes) -> str:
        """Write an object; returns the text for the row."""
        location = await _aside(len(body), Location.fresh, kind, task_id, owner_id, body)
        await self._write(location.path, body)
        return str(location)

    def put_blocking(self, kind: Stored, task_id: UUID, owner_id: str, body: bytes) -> str:
        """The same for a thread."""
        location = Location.fresh(kind, task_id, owner_id, body)
        self._require_directory()
        try:
            with self._asking.told("write"):
                self._store.put(location.path, body, **self._terms(body))
                if self._root is not None:
                    flush(self._root, location.path)
        except FileNotFoundError:
            raise self._asking.root_missing() from None
        return str(location)

    async def get(self, location: str) -> bytes:
        """Return an object, its size and hash verified."""
        wanted = _read(location)
        try:
            async with self._asking.bounded("read"):
                found = await self._store.get_async(wanted.path)
                _require(found.meta["size"] == wanted.size)
                body = bytes(await found.bytes_async())
        except FileNotFoundError:
            await self._miss()
        _require(await _aside(len(body), wanted.fits, body))
        return body

    async def beginning(self, location: str, length: int) -> bytes:
        """Return the first bytes of an object, unverified."""
        wanted = _read(location)
        found = await self.head(wanted.path, min(length, wanted.size))
        return await self._miss() if found is None else found

    async def link(self, location: str, seconds: int) -> str | None:
        """Sign a link to an object; None where the store, or our right to it, signs nothing."""
        if self._root is not None:
            return None
        from obstore import sign_async  # noqa: PLC0415 - see above

        path, lasts = _read(location).path, timedelta(seconds=seconds)
        try:
            async with self._signing.bounded("sign"):
                return str(await sign_async(self._store, "GET", path, lasts))
        except StorageAway:
            return None

    async def offered(self, location: str, owner_id: str) -> Location:
        """Look at an object a client put under ``client/<its segment>/``; raises ``ValueError``."""
        wanted = Location.read(location)
        if not wanted.is_offered_by(owner_id):
            raise ValueError("not where objects of this owner belong")
        if wanted.size > STORED_BYTES:
            raise ValueError(f"longer than {STORED_BYTES} bytes")
        try:
            async with self._asking.bounded("look"):
                size = (await self._store.head_async(wanted.path))["size"]
        except FileNotFoundError:
            await self._require_root()
            raise ValueError("there is no such object") from None
        if size != wanted.size:
            raise ValueError("not as long as it says")
        return wanted

    async def belongs_to(self, name: str) -> bool:
        """Mark the root as this database's, unless it is marked; whether it is its now."""
        try:
            async with self._asking.bounded("read"):
                found = await self._store.get_async(_MARK)
                return bytes(await found.bytes_async()) == name.encode()
        except FileNotFoundError:
            await self._write(_MARK, name.encode())
            return True

    async def _write(self, path: str, body: bytes) -> None:
        self._require_directory()
        try:
            async with self._asking.bounded("write"):
                await self._store.put_async(path, body, **self._terms(body))
                if self._root is not None:
                    await asyncio.to_thread(flush, self._root, path)
        except FileNotFoundError:
            raise self._asking.root_missing() from None

    def _terms(self, body: bytes) -> dict[str, Any]:
        """In one request: of one in parts, a crash leaves what no list shows and everybody pays."""
        if self._root is not None:
            return {"use_multipart": False}
        kind = "application/octet-stream" if is_sealed(body) else "application/json"
        return {"use_multipart": False, "attributes": {"Content-Type": kind}}

    async def _miss(self) -> NoReturn:
        await self._require_root()
        raise Unreadable("missing")

    async def _require_root(self) -> None:
        """Tell a missing object from a missing root, with which all would look missing."""
        self._require_directory()
        try:
            async with self._asking.bounded("look"):
                async for _ in self._store.list(chunk_size=1):
                    break
        except FileNotFoundError:
            raise self._asking.root_missing() from None

    def _require_directory(self) -> None:
        """A store of files would make the directory anew, on whatever disk it was mounted."""
        if self._root is not None and not self._root.is_dir():
            raise self._asking.root_missing()


def _read(location: str) -> Location:
    try:
        return Location.read(location)
    except ValueError:
        raise Unreadable("changed") from None


def _require(unchanged: bool) -> None:  # noqa: FBT001 - the sentence is in the name
    if not unchanged:
        raise Unreadable("changed")


async def _aside(size: int, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Hash what is long in a thread: the loop must not wait for it."""
    if size > _ASIDE_BYTES:
        return await asyncio.to_thread(verb, *args, **kwargs)
    return verb(*args, **kwargs)
