"""The ring of keys: the first one seals, all of them open; a file may change while it is used."""

import threading
import time
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from taskbell.shared.events import Event, Level, Observer, ignore
from taskbell.shared.sealing.envelope import KEY_BYTES, KEY_ID

OF_OWNERS: Final = "o-"
"""How the ids of owners' own keys begin; those of the ring must not."""

_LOOK_SECONDS: Final = 1.0
_LARGEST_FILE: Final = 64 * 1024
_LIKE_OWNERS: Final = f"its id begins with {OF_OWNERS}, as those of owners' keys do"


@dataclass(frozen=True, slots=True)
class KeyringUnreadable(Event):
    """The file of keys changed and cannot be used as it is; the keys it had before stay in use."""

    level: ClassVar[Level] = Level.ERROR
    reason: str


@dataclass(frozen=True, slots=True)
class Ring:
    """The keys of one moment, by id."""

    active: str
    """The id of the key that seals."""
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def read(cls, text: str) -> "Ring":
        """Read ``id:base64`` entries, between commas or line by line; ``#`` begins a comment.

        Raises ``ValueError``, which names the entry by its number and never tells what it holds.
        """
        keys: dict[str, bytes] = {}
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        entries = [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]
        for number, entry in enumerate(entries, start=1):
            key_id, _, written = entry.partition(":")
            key = _key(written)
            problem = _problem(key_id, key, keys)
            if key is None or problem:
                raise ValueError(f"entry {number} of the keys that seal: {problem}")
            keys[key_id] = key
        if not keys:
            raise ValueError("there are no keys that seal: write id:base64 of 32 bytes")
        return cls(next(iter(keys)), keys)


def _key(written: str) -> bytes | None:
    plain = written.strip().rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (NotBase64, ValueError):
        return None


def id_problem(key_id: str) -> str | None:
    """Say why no key of a ring can have this id; None if one can."""
    if not KEY_ID.fullmatch(key_id):
        return "its id has 1 to 32 letters, digits, dots, dashes and underlines, then a colon"
    return _LIKE_OWNERS if key_id.startswith(OF_OWNERS) else None


def _problem(key_id: str, key: bytes | None, keys: Mapping[str, bytes]) -> str | None:
    if problem := id_problem(key_id):
        return problem
    if key_id in keys:
        return "its id is there twice"
    if key is None or len(key) != KEY_BYTES:
        return f"its key is not the base64 of {KEY_BYTES} bytes"
    return None


class Keyring:
    """A ring that stays as it is, or follows its file. Thread-safe.

    The file is looked at once a second at most, while the ring is used. One that became unusable
    changes nothing and is reported once.
    """

    def __init__(self, keys: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Use these keys, or those of this file; raises ``ValueError``, which never tells one."""
        self.observe: Observer = ignore
        self._file = keys if isinstance(keys, Path) else None
        self._clock = clock
        self._lock = threading.Lock()
        self._look_at = clock() + _LOOK_SECONDS
        # Before it is read: if it changes meanwhile it is read again.
        self._seen = _stamp(self._file)
        self._told = False
        self._ring = _from_file(keys) if isinstance(keys, Path) else Ring.read(keys)

    def current(self) -> Ring:
        """The ring as it is now."""
        if self._file is not None and self._clock() >= self._look_at:
            with self._lock:
                self._look(self._file)
        return self._ring

    def _look(self, file: Path) -> None:
        if self._clock() < self._look_at:  # another thread looked meanwhile
            return
        self._look_at = self._clock() + _LOOK_SECONDS
        stamp = _stamp(file)
        if stamp == self._seen and not self._told:
            return
        try:
            self._ring = _from_file(file)
        except ValueError as error:
            if not self._told:
                self._told = True
                self.observe(KeyringUnreadable(str(error)))
        else:
            self._seen, self._told = stamp, False


def _from_file(file: Path) -> Ring:
    try:
        with file.open(encoding="utf-8") as opened:
            return Ring.read(opened.read(_LARGEST_FILE))
    except OSError as error:
        raise ValueError(f"the file of the keys that seal: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("the file of the keys that seal is not text") from None


def _stamp(file: Path | None) -> object:
    """What changes when a file does, a replaced one included."""
    try:
        found = file.stat() if file else None
    except OSError:
        return None
    return found and (found.st_mtime_ns, found.st_size, found.st_ino)
