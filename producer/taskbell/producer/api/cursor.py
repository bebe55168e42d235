"""Cursors of lists: a place in the list, signed for the caller and the filters it was given to."""

import base64
import binascii
import hmac
import json
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from taskbell.producer.api.problems import Problem
from taskbell.shared.connections import Runner
from taskbell.shared.statements import access

_VERSION: Final = b"\x01"
_SIGNED: Final = 16
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
        secret = self._secret or await self._read()
        signed = _VERSION + place
        octets = signed + _signature(secret, signed, reach, filters)
        return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()

    async def read(self, cursor: str, reach: str | None, filters: Mapping[str, str]) -> bytes:
        """Return the place; raises ``Problem`` for one of another caller, filter or hand."""
        octets = _octets(cursor)
        signed, signature = octets[:-_SIGNED], octets[-_SIGNED:]
        if not signed.startswith(_VERSION):
            raise Problem("invalid-cursor")
        secret = self._secret or await self._read()
        if not _is(signature, secret, signed, reach, filters):
            # The secret may have been replaced: look, but not for everybody who guesses.
            if time.monotonic() < self._read_at + _AGAIN_SECONDS:
                raise Problem("invalid-cursor")
            if not _is(signature, await self._read(), signed, reach, filters):
                raise Problem("invalid-cursor")
        return signed[len(_VERSION) :]

    async def _read(self) -> bytes:
        rows = await self._runner.run(access.SECRET, name="cursor")
        self._read_at = time.monotonic()
        if not rows:
            raise Problem("not-migrated", "the secret of the cursors is missing")
        self._secret = bytes(rows[0].value)
        return self._secret


def _is(
    signature: bytes, secret: bytes, signed: bytes, reach: str | None, filters: Mapping[str, str]
) -> bool:
    return hmac.compare_digest(signature, _signature(secret, signed, reach, filters))


def _signature(
    secret: bytes, signed: bytes, reach: str | None, filters: Mapping[str, str]
) -> bytes:
    # The length goes first, so that no place can be taken for a part of what follows it.
    context = json.dumps([reach, sorted(filters.items())]).encode()
    return hmac.digest(secret, bytes([len(signed)]) + signed + context, sha256)[:_SIGNED]


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
