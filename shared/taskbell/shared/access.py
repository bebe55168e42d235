"""Keys of the HTTP interface: what they look like, and what operators do with them.

A key is 32 random bytes behind a prefix that may be shown. Only its SHA-256 is stored: with so much
chance in it there is nothing to guess, so nothing slow is needed to hash it.
"""

import re
import secrets
import string
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from taskbell.shared.connections import Runner
from taskbell.shared.limits import OWNER_BYTES
from taskbell.shared.rates import require_rate
from taskbell.shared.statements import access
from taskbell.shared.text import storable


class Scope(StrEnum):
    """What a key or a token may be allowed; the database holds the same list."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    OPERATE = "operate"
    ADMIN = "admin"


SCOPES: Final = tuple(Scope)

LABEL_BYTES: Final = 200

LIFE_SECONDS: Final = 100 * 366 * 24 * 3600
"""The longest life of a key that ends at all: a century."""

_PREFIX: Final = re.compile(r"tbk_[0-9A-Za-z]{8}")
_KEY: Final = re.compile(r"tbk_[0-9A-Za-z]{8}_[0-9A-Za-z_-]{43}")
_SIGNS: Final = string.digits + string.ascii_letters
_PREFIX_SIGNS: Final = 8
_RANDOM_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made; ``text`` is shown once and then forgotten."""

    prefix: str
    text: str = field(repr=False)

    @property
    def key_hash(self) -> bytes:
        """What is stored of it."""
        return digest_of(self.text)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a new key may: for whom, what, for how many seconds, and how fast.

    ``rate``: tasks a second, up to ``burst`` at once. Raises ``ValueError``.
    """

    owner_id: str
    scopes: tuple[str, ...]
    label: str = ""
    seconds: float | None = None
    rate: float | None = None
    burst: float | None = None

    def __post_init__(self) -> None:
        _require_line("owner", self.owner_id, OWNER_BYTES)
        _require_line("label", self.label, LABEL_BYTES)
        if not self.scopes or set(self.scopes) - set(SCOPES):
            raise ValueError(f"scopes: one or more of {', '.join(SCOPES)}")
        if self.seconds is not None:
            require_life(self.seconds)
        if (self.rate is None) != (self.burst is None):
            raise ValueError("rate and burst: both or neither")
        if self.rate is not None and self.burst is not None:
            require_rate(self.rate, self.burst)


@dataclass(frozen=True, slots=True)
class Rotated:
    """The key that follows another, and until when the other one is still good."""

    key: NewKey
    expires_at: datetime | None
    old_expires_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key; ``state`` is ``good``, ``expired`` or ``revoked``.

    ``rate`` and ``burst``: how fast it may submit, if that was limited.
    """

    prefix: str
    owner_id: str
    label: str
    scopes: Sequence[str]
    state: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    rate: float | None
    burst: float | None


def new_key() -> NewKey:
    """Make a key of the operating system's randomness."""
    prefix = "tbk_" + "".join(secrets.choice(_SIGNS) for _ in range(_PREFIX_SIGNS))
    chance = urlsafe_b64encode(secrets.token_bytes(_RANDOM_BYTES)).rstrip(b"=").decode()
    return NewKey(prefix, f"{prefix}_{chance}")


def is_key(text: str) -> bool:
    """Whether a text has the form of a key."""
    return _KEY.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    """Whether a text has the form of a key's name."""
    return _PREFIX.fullmatch(text) is not None


def digest_of(text: str) -> bytes:
    """Return what is stored and looked up in place of a key."""
    return sha256(text.encode()).digest()


def require_life(seconds: float) -> None:
    """Refuse what is no time from now; raises ``ValueError``."""
    if not 0 < seconds <= LIFE_SECONDS:
        raise ValueError(f"a key's life: more than 0, at most {LIFE_SECONDS} seconds")


async def create(runner: Runner, grant: Grant, *, actor: str) -> NewKey:
    """Make a key; it is good from now on."""
    key = new_key()
    await runner.run(
        access.CREATE,
        prefix=key.prefix,
        key_hash=key.key_hash,
        owner_id=grant.owner_id,
        label=grant.label,
        scopes=sorted(set(grant.scopes), key=SCOPES.index),
        seconds=grant.seconds,
        rate=grant.rate,
        burst=grant.burst,
        actor=actor,
    )
    return key


async def rotate(
    runner: Runner, prefix: str, *, overlap: float, seconds: float | None, actor: str
) -> Rotated | None:
    """Make a key with the rights and the rate of another, which ends ``overlap`` seconds from now.

    ``seconds``: how long the new one is good; None: for ever. Returns None, and has changed
    nothing, if the other one is unknown or has ended, or was to end and the new one would not.
    """
    key = new_key()
    rows = await runner.run(
        access.ROTATE,
        old=prefix,
        prefix=key.prefix,
        key_hash=key.key_hash,
        overlap=overlap,
        seconds=seconds,
        actor=actor,
    )
    return Rotated(key, rows[0].expires_at, rows[0].old_expires_at) if rows else None


async def revoke_many(runner: Runner, prefixes: Iterable[str], *, actor: str) -> list[str]:
    """End keys for good; returns those that were ended, without those that were before."""
    rows = await runner.run(access.REVOKE, prefixes=list(dict.fromkeys(prefixes)), actor=actor)
    return [row.prefix for row in rows]


async def list_many(
    runner: Runner, *, owner_id: str | None = None, limit: int = 100
) -> list[ApiKey]:
    """Return what is known of keys, of one owner's or of all, the newest first."""
    rows = await runner.run(access.LIST, owner_id=owner_id, prefix=None, limit=limit)
    return [ApiKey(*row) for row in rows]


async def find(runner: Runner, prefix: str) -> ApiKey | None:
    """Return what is known of one key."""
    rows = await runner.run(access.LIST, owner_id=None, prefix=prefix, limit=1)
    return ApiKey(*rows[0]) if rows else None


def _require_line(field_name: str, text: str, limit: int) -> None:
    if storable(text, limit) != text or "\n" in text:
        raise ValueError(f"{field_name}: one line of at most {limit} bytes of UTF-8")
