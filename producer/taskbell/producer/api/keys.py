"""Judges API keys, and puts together who is admitted at all."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import psycopg

from taskbell.producer.api.gatekeeper import (
    BearerGatekeeper,
    Gatekeeper,
    OpenGatekeeper,
    is_loopback,
)
from taskbell.producer.api.oidc import tokens_of
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.remembered import Remembered
from taskbell.producer.api.settings import ApiSettings
from taskbell.shared.access import digest_of
from taskbell.shared.connections import Connections, Runner
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Event, Level, Observer
from taskbell.shared.statements import access

_MOST_REMEMBERED: Final = 10_000
# Somebody who tries again and again with a wrong key asks the database once a second.
_BAD_SECONDS: Final = 1.0
_TOUCH_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class KeyUseUnwritten(Event):
    """When keys were last used could not be written; reported once until it can be again."""

    level: ClassVar[Level] = Level.WARNING
    keys: int
    error: str


def make_gatekeeper(
    settings: ApiSettings, connections: Connections, observe: Observer
) -> Gatekeeper:
    """Give the gatekeeper these settings ask for; raises ``ValueError``."""
    if settings.api_auth == "off":
        if not is_loopback(settings.api_host):
            raise ValueError(
                "TASKBELL_API_AUTH=off makes everybody an administrator: "
                f"TASKBELL_API_HOST must then be 127.0.0.1 or ::1, not {settings.api_host}"
            )
        return OpenGatekeeper()
    keys = ApiKeys(connections, settings.api_key_seconds, observe)
    return BearerGatekeeper(keys, tokens_of(settings, observe))


class ApiKeys:
    """Knows API keys by their SHA-256; what was found is believed for ``seconds``.

    So long, and no longer, does a revoked key still work, and a good one while the database is
    away.
    """

    def __init__(
        self,
        runner: Runner,
        seconds: float,
        observe: Observer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runner = runner
        self._seconds = seconds
        self._uses = _LastUses(runner, observe)
        # Apart, so that a stranger's guesses do not push out what is known of good ones.
        self._good = Remembered[Principal](_MOST_REMEMBERED, clock)
        self._bad = Remembered[bool](_MOST_REMEMBERED, clock)
        self._asking: dict[bytes, asyncio.Future[Principal | None]] = {}

    async def principal_of(self, token: str) -> Principal | None:
        """Return whose key it is, or None if it is wrong, expired or revoked.

        Raises ``DatabaseAway``.
        """
        digest = digest_of(token)
        if (known := self._good.get(digest)) is not None:
            return known
        if self._bad.get(digest):
            return None
        asking = self._asking.get(digest)
        if asking is None:
            # One question for all who came with the same key meanwhile, whoever of them goes away.
            asking = asyncio.ensure_future(self._ask(digest))
            self._asking[digest] = asking
            asking.add_done_callback(lambda done: self._asked(digest, done))
        return await asyncio.shield(asking)

    def degraded(self) -> list[str]:
        """Name nothing: they need the database alone."""
        return []

    async def at_rest(self) -> None:
        """Return once no last use is being written."""
        await self._uses.at_rest()

    def _asked(self, digest: bytes, asking: "asyncio.Future[Principal | None]") -> None:
        del self._asking[digest]
        if not asking.cancelled():
            asking.exception()  # seen, also if nobody waits any more

    async def _ask(self, digest: bytes) -> Principal | None:
        rows = await self._runner.run(access.SIGN_IN, key_hash=digest, pause=_TOUCH_SECONDS)
        if not rows:
            self._bad.keep(digest, value=True, seconds=min(self._seconds, _BAD_SECONDS))
            return None
        (row,) = rows
        # A scope that only a newer version knows allows nothing here.
        scopes = frozenset(scope for scope in Scope if scope in row.scopes)
        principal = Principal(row.prefix, row.owner_id, scopes, row.prefix)
        left = math.inf if row.seconds_left is None else row.seconds_left
        self._good.keep(digest, principal, min(self._seconds, left))
        if row.to_touch:
            self._uses.note(row.prefix)
        return principal


class _LastUses:
    """Writes when keys were last used, behind the back of those who use them."""

    def __init__(self, runner: Runner, observe: Observer) -> None:
        self._runner = runner
        self._observe = observe
        self._told = False
        self._prefixes: set[str] = set()
        self._writing: asyncio.Future[None] | None = None

    def note(self, prefix: str) -> None:
        """Remember to write it."""
        self._prefixes.add(prefix)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write())

    async def at_rest(self) -> None:
        """Return once nothing is being written."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write(self) -> None:
        while self._prefixes:
            prefixes = sorted(self._prefixes)
            self._prefixes.clear()
            try:
                await self._runner.run(access.TOUCH, prefixes=prefixes)
            except (DatabaseAway, psycopg.Error) as error:
                if not self._told:
                    # The first line alone: those behind it may quote the row.
                    reason = str(error).partition("\n")[0]
                    self._observe(KeyUseUnwritten(len(prefixes), reason))
                self._told = True
            else:
                self._told = False
