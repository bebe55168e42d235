"""Cursors of lists: a place in the list, sealed for the caller and the filters it was given to.

Sealed rather than signed: the place is a task's id, which need not be one of the caller's own.
"""

import base64
import binascii
import json
import os
import time
from collections.abc import Mapping
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from taskbell.producer.api.problems import Problem
from taskbell.shared.connections import Runner
from taskbell.shared.statements import access

_VERSION: Final = b"\x01"
_NONCE: Final = 12
_LONGEST: Final = 200
_AGAIN_SECONDS: Final = 30.0


class Cursors:
    """Writes and reads cursors with a secret that all replicas find in the database."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._secret = b""
        self._read_at = 0.0

    async def write(self, place: bytes, reach: str | None, filters: Mapping[str, str]) -> str:
        """Return a cursor; ``reach``: whose rows the caller sees. Raises ``DatabaseAway``."""
        secret, nonce = self._secret or await self._read(), os.urandom(_NONCE)
        sealed = AESGCM(secret).encrypt(nonce, place, _context(reach, filters))
        return base64.urlsafe_b64encode(_VERSION + nonce + sealed).rstrip(b"=").decode()

    async def read(self, cursor: str, reach: str | None, filters: Mapping[str, str]) -> bytes:
        """Return the place; raises ``Problem`` for one of another caller, filter or hand."""
        octets = _octets(cursor)
        if not octets.startswith(_VERSION):
            raise Problem("invalid-cursor")
        nonce = octets[len(_VERSION) : len(_VERSION) + _NONCE]
        sealed, context = octets[len(_VERSION) + _NONCE :], _context(reach, filters)
        place = _opened(self._secret or await self._read(), nonce, sealed, context)
        # The secret may have been replaced: look, but not for everybody who guesses.
        if place is None and time.monotonic() >= self._read_at + _AGAIN_SECONDS:
            place = _opened(await self._read(), nonce, sealed, context)
        if place is None:
            raise Problem("invalid-cursor")
        return place

    async def _read(self) -> bytes:
        rows = await self._runner.run(access.SECRET, name="cursor")
        self._read_at = time.monotonic()
        if not rows:
            raise Problem("not-migrated", "the secret of the cursors is missing")
        self._secret = bytes(rows[0].value)
        return self._secret


def _opened(secret: bytes, nonce: bytes, sealed: bytes, context: bytes) -> bytes | None:
    try:
        return AESGCM(secret).decrypt(nonce, sealed, context)
    except (InvalidTag, ValueError):
        return None


def _context(reach: str | None, filters: Mapping[str, str]) -> bytes:
    return json.dumps([reach, sorted(filters.items())]).encode()


def _octets(cursor: str) -> bytes:
    try:
        text = cursor.encode("ascii")
        if len(text) > _LONGEST:
            raise Problem("invalid-cursor")
        octets = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise Problem("invalid-cursor") from None
    if base64.urlsafe_b64encode(octets).rstrip(b"=") != text:  # one place, one spelling
        raise Problem("invalid-cursor")
    return octets
