"""The envelope: what sealed content looks like, byte by byte.

======  ====  ==============================================================
offset  size  what
======  ====  ==============================================================
0       1     0x01, the version; no JSON begins with it
1       1     0x01, the suite: AES-256-GCM under a key of the task
2       1     n, the length of the key id
3       n     the key id, ASCII
3 + n   12    a random nonce
15 + n  rest  the ciphertext and, in its last 16 bytes, the tag
======  ====  ==============================================================

The task's key is HMAC-SHA256 under the key that is named, over a label and the task id: no key
seals more than one task's few texts, so random nonces stay far from their bound. What is
authenticated besides: everything before the nonce, the kind, the task id, the owner.
"""

import hmac
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from taskbell.shared.errors import Unreadable

if TYPE_CHECKING:  # an extra, loaded by those alone who seal
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
HEAD_BYTES: Final = 64
"""As much of an envelope as tells that it is one, and its key."""
KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)

SEALED: Final = "(sealed)"
"""What stands for a text where it cannot be opened, or must not be told."""

_VERSION: Final = b"\x01\x01"
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_LABEL: Final = b"taskbell seal 1\0"
_PREFIX: Final = "sealed:1:"
HEAD_CHARACTERS: Final = len(_PREFIX) + 4 * -(-HEAD_BYTES // 3)
"""As much of one as text tells the same; four characters are three octets."""
_TEXT: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Kind(IntEnum):
    """What was sealed; part of what the seal binds."""

    PAYLOAD = 1
    RESULT = 2
    ERROR = 3
    TRACEBACK = 4
    DATA_KEY = 9
    """The key of one owner, sealed by the ring; of no task, so under the nil id."""


class Envelope(NamedTuple):
    """An envelope's parts, none of them verified."""

    head: bytes
    key_id: str
    nonce: bytes
    sealed: bytes

    @classmethod
    def read(cls, envelope: bytes) -> "Envelope | None":
        """Take one apart; None: this is not an envelope."""
        if len(envelope) < len(_VERSION) + 1 or not envelope.startswith(_VERSION):
            return None
        start = len(_VERSION) + 1
        end = start + envelope[start - 1]
        key_id = envelope[start:end].decode("ascii", "replace")
        if len(envelope) < end + _NONCE_BYTES + _TAG_BYTES or not KEY_ID.fullmatch(key_id):
            return None
        nonce = envelope[end : end + _NONCE_BYTES]
        return cls(envelope[:end], key_id, nonce, envelope[end + _NONCE_BYTES :])


def require_library() -> None:
    """Raise ``ImportError`` where nothing can be sealed."""
    _cipher(bytes(KEY_BYTES))


def key_for(key: bytes, task_id: UUID) -> bytes:
    """Derive the key of one task."""
    return hmac.digest(key, _LABEL + task_id.bytes, "sha256")


def seal(
    key_id: str, task_key: bytes, kind: Kind, task_id: UUID, owner_id: str, clear: bytes
) -> bytes:
    """Return the envelope of ``clear``; ``task_key`` is what ``key_for`` derived."""
    name = key_id.encode("ascii")
    head = _VERSION + bytes([len(name)]) + name
    nonce = os.urandom(_NONCE_BYTES)
    bound = _bound(head, kind, task_id, owner_id)
    return head + nonce + _cipher(task_key).encrypt(nonce, clear, bound)


def unseal(envelope: Envelope, key: bytes, kind: Kind, task_id: UUID, owner_id: str) -> bytes:
    """Return what was sealed under the key that the envelope names; raises ``Unreadable``."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above

    bound = _bound(envelope.head, kind, task_id, owner_id)
    try:
        return _cipher(key_for(key, task_id)).decrypt(envelope.nonce, envelope.sealed, bound)
    except InvalidTag:
        raise Unreadable("changed") from None


def _bound(head: bytes, kind: Kind, task_id: UUID, owner_id: str) -> bytes:
    return head + bytes([kind]) + task_id.bytes + owner_id.encode()


def _cipher(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    return AESGCM(key)


def as_text(envelope: bytes) -> str:
    """Write an envelope for a column of text."""
    return _PREFIX + urlsafe_b64encode(envelope).decode("ascii").rstrip("=")


def from_text(text: str) -> bytes | None:
    """Read what ``as_text`` wrote; None: this is some other text."""
    if not text.startswith(_PREFIX):
        return None
    written = text[len(_PREFIX) :]
    if not _TEXT.fullmatch(written) or len(written) % 4 == 1:
        return None
    return urlsafe_b64decode(written + "=" * (-len(written) % 4))


def key_id_of(sealed: bytes | str) -> str | None:
    """Read which key sealed this; None if it is not sealed."""
    envelope = from_text(sealed) if isinstance(sealed, str) else sealed
    found = None if envelope is None else Envelope.read(envelope)
    return None if found is None else found.key_id


def is_sealed(content: bytes | str | None) -> bool:
    """Whether this is an envelope, its first ``HEAD_BYTES``, or the text of one."""
    if isinstance(content, bytes):  # a long one would be copied
        content = content[:HEAD_BYTES]
    return content is not None and key_id_of(content) is not None
