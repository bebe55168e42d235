"""Who seals with what: the ring of keys, and what is known of owners' own keys."""

import os
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.database import Rows
from taskbell.shared.errors import Lost, Unreadable
from taskbell.shared.events import Observer
from taskbell.shared.sealing import envelope
from taskbell.shared.sealing.envelope import SEALED, Envelope, Kind, is_sealed, key_id_of
from taskbell.shared.sealing.keyring import OF_OWNERS, Keyring
from taskbell.shared.statements import data_key

_FORGOTTEN_SECONDS: Final = 30.0
# Asked for again before it is forgotten: who was told that all is known has the time to use it.
_STALE_SECONDS: Final = 25.0
_NO_TASK: Final = UUID(int=0)
_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class TaskSeal:
    """Seals for one task, with the key of that task alone; pure, and may be sent to its process."""

    key_id: str
    task_id: UUID
    owner_id: str
    key: bytes = field(repr=False)

    def seal(self, kind: Kind, clear: bytes) -> bytes:
        """Return an envelope."""
        return envelope.seal(self.key_id, self.key, kind, self.task_id, self.owner_id, clear)

    def seal_text(self, kind: Kind, clear: str) -> str:
        """Return an envelope as text, for error columns."""
        return envelope.as_text(self.seal(kind, clear.encode()))


class _OwnersKey(NamedTuple):
    """What the database said of an owner's key, and when."""

    key: bytes | Lost
    noted_at: float


class Seals:
    """The ring, and what is known of owners' keys. Thread-safe; knows no database.

    Owners and key ids are forgotten after 30 s, so an erased key is out of use everywhere by then.
    """

    def __init__(self, keyring: Keyring, clock: Callable[[], float] = time.monotonic) -> None:
        envelope.require_library()
        self._keyring = keyring
        self._clock = clock
        self._lock = threading.Lock()
        self._swept_at = clock()
        # Of each owner the id of its key, or None if the ring seals for it; and when that was so.
        self._owners: dict[str, tuple[str | None, float]] = {}
        self._keys: dict[str, _OwnersKey] = {}

    @classmethod
    def of(cls, keys: str | None, file: Path | None) -> "Seals | None":
        """Read the ring; None: sealing is off. Raises ``ValueError``, which never tells a key."""
        if keys is not None and file is not None:
            raise ValueError("give the keys that seal either themselves or as a file, not both")
        source = keys if keys is not None else file
        try:
            return None if source is None else cls(Keyring(source))
        except ImportError:
            raise ValueError(
                "sealing needs cryptography: pip install 'taskbell-shared[sealing]'"
            ) from None

    def report_to(self, observe: Observer) -> None:
        """Report a file of keys that became unreadable to this observer."""
        self._keyring.observe = observe

    def unknown_owners(self, owner_ids: Iterable[str]) -> list[str]:
        """Return those to ask ``data_key.OF_OWNERS`` for; then call ``note_owners``."""
        since = self._clock() - _STALE_SECONDS
        return [
            each
            for each in dict.fromkeys(owner_ids)
            if each and ((known := self._owners.get(each)) is None or known[1] < since)
        ]

    def note_owners(self, asked: Sequence[str], rows: Rows) -> None:
        """Remember the answer; owners without a row use the ring."""
        with self._lock:
            self._sweep()
            now = self._clock()
            found = {row.owner_id: row for row in rows}
            for row in rows:
                self._keys[row.key_id] = self._opened(row, now)
            for each in asked:
                self._owners[each] = found[each].key_id if each in found else None, now

    def unknown_keys(self, sealed: Iterable[bytes | str | None]) -> list[str]:
        """Return the key ids to ask ``data_key.BY_IDS`` for; then call ``note_keys``."""
        since = self._clock() - _STALE_SECONDS
        ids = dict.fromkeys(key_id_of(each) for each in sealed if each is not None)
        return [
            each
            for each in ids
            if each is not None
            and each.startswith(OF_OWNERS)
            and ((known := self._keys.get(each)) is None or known.noted_at < since)
        ]

    def note_keys(self, asked: Sequence[str], rows: Rows) -> None:
        """Remember the answer."""
        with self._lock:
            self._sweep()
            now = self._clock()
            for each in asked:
                self._keys[each] = _OwnersKey("key unknown", now)
            for row in rows:
                self._keys[row.key_id] = self._opened(row, now)

    async def learn(
        self,
        runner: Runner,
        owner_ids: Iterable[str] = (),
        sealed: Iterable[bytes | str | None] = (),
    ) -> None:
        """Ask both questions where there is somebody to ask; no statement if nothing is unknown.

        Raises ``DatabaseAway``.
        """
        if owners := self.unknown_owners(owner_ids):
            self.note_owners(owners, await runner.run(data_key.OF_OWNERS, owner_ids=owners))
        if keys := self.unknown_keys(sealed):
            self.note_keys(keys, await runner.run(data_key.BY_IDS, key_ids=keys))

    def for_task(self, task_id: UUID, owner_id: str) -> TaskSeal:
        """Return the seal of one task; ``LookupError`` if its owner was not noted.

        Raises ``Unreadable`` if the owner has a key and this ring does not open it: sealed by the
        ring, the task would outlive the owner's key.
        """
        key_id = self.key_id_for(owner_id)
        return TaskSeal(key_id, task_id, owner_id, envelope.key_for(self._key(key_id), task_id))

    def open(self, kind: Kind, task_id: UUID, owner_id: str, sealed: bytes) -> bytes:
        """Return what was sealed; raises ``Unreadable``."""
        found = Envelope.read(sealed)
        if found is None:
            raise Unreadable("changed")
        return envelope.unseal(found, self._key(found.key_id), kind, task_id, owner_id)

    def open_text(self, kind: Kind, task_id: UUID, owner_id: str, text: str | None) -> str | None:
        """Return a text that may be sealed; what cannot be opened says so in brackets."""
        sealed = envelope.from_text(text) if text is not None and is_sealed(text) else None
        if sealed is None:
            return text
        try:
            return self.open(kind, task_id, owner_id, sealed).decode()
        except Unreadable as error:
            return f"(unreadable: {error.reason})"

    @property
    def active_key_id(self) -> str:
        """The key of the ring that seals now."""
        return self._keyring.current().active

    def key_id_for(self, owner_id: str) -> str:
        """The key that seals for this owner now; ``LookupError`` if it was not noted."""
        if not owner_id:  # nobody's tasks: there is no such owner's key
            return self.active_key_id
        key_id, noted_at = self._owners.get(owner_id, (None, float("-inf")))
        if noted_at < self._clock() - _FORGOTTEN_SECONDS:
            raise LookupError("the owner's key was not asked for, or too long ago")
        return key_id or self.active_key_id

    def new_data_key(self, owner_id: str) -> tuple[str, bytes]:
        """Make a key for an owner; returns its id and the key wrapped by the ring, to be kept."""
        key_id = OF_OWNERS + urlsafe_b64encode(os.urandom(_ID_BYTES)).decode("ascii").rstrip("=")
        return key_id, self._wrapped(owner_id, os.urandom(envelope.KEY_BYTES))

    def rewrapped(self, owner_id: str, wrapped: bytes) -> bytes | None:
        """Wrap an owner's key by the ring's present key; None: it is. Raises ``Unreadable``."""
        if key_id_of(wrapped) == self.active_key_id:
            return None
        return self._wrapped(owner_id, self.open(Kind.DATA_KEY, _NO_TASK, owner_id, wrapped))

    def _wrapped(self, owner_id: str, key: bytes) -> bytes:
        ring = self._keyring.current()
        ours = envelope.key_for(ring.keys[ring.active], _NO_TASK)
        return envelope.seal(ring.active, ours, Kind.DATA_KEY, _NO_TASK, owner_id, key)

    def _opened(self, row: Any, now: float) -> _OwnersKey:
        if row.wrapped is None:
            return _OwnersKey("erased", now)
        try:
            key = self.open(Kind.DATA_KEY, _NO_TASK, row.owner_id, row.wrapped)
        except Unreadable as error:
            return _OwnersKey(error.reason, now)
        return _OwnersKey(key, now)

    def _key(self, key_id: str) -> bytes:
        if not key_id.startswith(OF_OWNERS):
            key = self._keyring.current().keys.get(key_id)
            if key is None:
                raise Unreadable("key unknown")
            return key
        known = self._keys.get(key_id)
        if known is None or known.noted_at < self._clock() - _FORGOTTEN_SECONDS:
            raise Unreadable("key unknown")
        if not isinstance(known.key, bytes):
            raise Unreadable(known.key)
        return known.key

    def _sweep(self) -> None:
        """Forget what is not used any more, once in a while."""
        since = self._clock() - _FORGOTTEN_SECONDS
        if self._swept_at < since:
            self._swept_at = self._clock()
            self._owners = {name: each for name, each in self._owners.items() if each[1] >= since}
            self._keys = {name: each for name, each in self._keys.items() if each.noted_at >= since}


def opened_text(
    seals: Seals | None, kind: Kind, task_id: UUID, owner_id: str, text: str | None
) -> str | None:
    """Return a text that may be sealed as far as it can be read here; without keys: ``SEALED``."""
    if seals is not None:
        return seals.open_text(kind, task_id, owner_id, text)
    return SEALED if is_sealed(text) else text
