"""An issuer's public keys: found by discovery, kept for a while, lived on while it is away."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, ClassVar, Final

from jwt import PyJWK, PyJWTError
from pydantic import BaseModel, ValidationError

from taskbell.producer.api.trusted import DEADLINE, fetch_json, require_trusted
from taskbell.shared.events import Event, Level, Observer

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {
    "ES256": ("EC", {"P-256"}),
    "ES384": ("EC", {"P-384"}),
    "ES512": ("EC", {"P-521"}),
    "EdDSA": ("OKP", {"Ed25519", "Ed448"}),
}
ALGORITHMS: Final = frozenset(_RSA) | frozenset(_CURVES)
"""Those that need the issuer's private key. With a shared secret whoever checks could also sign."""

_LEAST_RSA_BITS: Final = 2048
_FRESH_SECONDS: Final = 600.0
_LAST_SECONDS: Final = 24 * 3600.0
_PAUSE_SECONDS: Final = 30.0
_PAUSE_AFTER_FAILURE: Final = 5.0

Jwk = Mapping[str, Any]
Fetch = Callable[[str], object]


class _KeySet(BaseModel):
    keys: list[dict[str, Any]]


class IssuerAway(Exception):
    """The issuer's keys cannot be had for now."""


@dataclass(frozen=True, slots=True)
class IssuerLost(Event):
    """The issuer's keys could not be fetched; those known go on working for a day."""

    level: ClassVar[Level] = Level.WARNING
    issuer: str
    error: str


@dataclass(frozen=True, slots=True)
class IssuerFound(Event):
    """The issuer's keys were fetched, the first time or again after they could not be."""

    issuer: str
    keys: int


class Issuer:
    """Answers with the key a token names; ``jwks_url`` None: where the issuer says they are.

    Keys are fetched every ten minutes, behind the back of those who use them, and at once for a key
    that is not known, every half minute at most; whoever else names an unknown one meanwhile is
    told to come back. ``fetch`` reads the JSON of a URL in a thread.
    """

    def __init__(
        self,
        issuer: str,
        jwks_url: str | None,
        observe: Observer,
        clock: Callable[[], float] = time.monotonic,
        fetch: Fetch | None = None,
    ) -> None:
        """Raises ``ValueError`` for an address that is not to be trusted."""
        self.issuer = require_trusted(issuer)
        self._jwks_url = require_trusted(jwks_url) if jwks_url is not None else None
        self._observe = observe
        self._clock = clock
        self._fetch = fetch or fetch_json
        self._keys: Sequence[Jwk] = ()
        self._good_at = self._asked_at = -float("inf")
        self._lost: bool | None = None
        self._fetching: asyncio.Future[None] | None = None
        self._reading = threading.Lock()

    async def key_for(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return the one key that may have signed such a token, or None; raises ``IssuerAway``."""
        age = self._clock() - self._good_at
        if age > _LAST_SECONDS:
            await self._refreshed()
            if self._clock() - self._good_at > _LAST_SECONDS:
                raise IssuerAway
        elif age > _FRESH_SECONDS:
            self._refresh()
        found = pick(self._keys, kid, algorithm)
        if found is None and self._is_fetching():
            raise IssuerAway  # one waits for an answer that may not come; strangers do not queue up
        if found is None and await self._refreshed():
            found = pick(self._keys, kid, algorithm)
        if found is None and self._lost:
            raise IssuerAway  # it may be a new one
        return found

    @property
    def is_away(self) -> bool:
        """Whether its keys could not be fetched when it was last asked; those known go on."""
        return bool(self._lost)

    async def at_rest(self) -> None:
        """Return once nothing is being fetched."""
        if self._fetching is not None:
            await asyncio.wait({self._fetching})

    async def _refreshed(self) -> bool:
        """Fetch, or wait for who does, unless that was only just tried."""
        if (fetching := self._refresh()) is None:
            return False
        await asyncio.shield(fetching)
        return True

    def _is_fetching(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    def _refresh(self) -> "asyncio.Future[None] | None":
        if self._is_fetching():
            return self._fetching
        pause = _PAUSE_AFTER_FAILURE if self._lost else _PAUSE_SECONDS
        if self._clock() - self._asked_at < pause:
            return None
        self._asked_at = self._clock()
        self._fetching = asyncio.ensure_future(self._fetched())
        return self._fetching

    async def _fetched(self) -> None:
        try:
            # Looking up a name may take longer than all that follows.
            async with asyncio.timeout(4 * DEADLINE):
                keys = await asyncio.to_thread(self._ask)
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            if not self._lost:
                self._observe(IssuerLost(self.issuer, f"{type(error).__name__}: {error}"))
            self._lost = True
            return
        self._keys, self._good_at = keys, self._clock()
        if self._lost is not False:
            self._observe(IssuerFound(self.issuer, len(keys)))
        self._lost = False

    def _ask(self) -> Sequence[Jwk]:
        # Nothing ends a thread whose answer drips in for ever, and the database's name is looked up
        # in one of the same few.
        if not self._reading.acquire(blocking=False):
            raise TimeoutError("the answer before does not end")
        try:
            url = self._jwks_url or discovered(self._fetch(discovery_url(self.issuer)), self.issuer)
            return keys_of(self._fetch(url))
        finally:
            self._reading.release()


def discovery_url(issuer: str) -> str:
    """Name the document in which an issuer tells about itself."""
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def discovered(document: object, issuer: str) -> str:
    """Read where the keys are; raises ``ValueError`` if another issuer says so."""
    match document:
        case {"issuer": str(said), "jwks_uri": str(url)} if said == issuer:
            return require_trusted(url)
        case _:
            raise ValueError("the discovered document is not one of this issuer")


def keys_of(document: object) -> Sequence[Jwk]:
    """Read a set of keys; raises ``ValueError``."""
    try:
        return _KeySet.model_validate(document).keys
    except ValidationError:
        raise ValueError("not a set of keys") from None


def pick(keys: Sequence[Jwk], kid: str | None, algorithm: str) -> PyJWK | None:
    """Return the one key that suits; without a ``kid`` there must be no second one."""
    suitable = [key for key in keys if _suits(key, kid, algorithm)]
    if len(suitable) != 1:
        return None
    try:
        key = PyJWK(dict(suitable[0]), algorithm)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    weak = algorithm in _RSA and getattr(key.key, "key_size", 0) < _LEAST_RSA_BITS
    return None if weak else key


def _suits(key: Jwk, kid: str | None, algorithm: str) -> bool:
    kind, curves = _CURVES.get(algorithm, ("RSA", {None}))
    return (
        (kid is None or key.get("kid") == kid)
        and key.get("kty") == kind
        and key.get("crv") in curves
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
    )
