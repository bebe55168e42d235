"""An issuer's public keys: found by discovery, kept for a while, lived on while it is away."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, ClassVar, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from jwt import PyJWK, PyJWTError
from pydantic import BaseModel, ValidationError

from taskbell.producer.api.gatekeeper import is_loopback
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
_MOST_BYTES: Final = 1024 * 1024
_DEADLINE: Final = 5.0

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
    that is not known, every half minute at most. ``fetch`` reads the JSON of a URL in a thread.
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
        if found is None and await self._refreshed():
            found = pick(self._keys, kid, algorithm)
        if found is None and self._lost:
            raise IssuerAway  # it may be a new one
        return found

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

    def _refresh(self) -> "asyncio.Future[None] | None":
        if self._fetching is not None and not self._fetching.done():
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
            async with asyncio.timeout(4 * _DEADLINE):
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
        url = self._jwks_url or discovered(self._fetch(discovery_url(self.issuer)), self.issuer)
        return keys_of(self._fetch(url))


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


def require_trusted(url: str) -> str:
    """Refuse an address over which keys could be changed on their way; raises ``ValueError``."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    here = parts.scheme == "http" and (host == "localhost" or is_loopback(host))
    if not host or not (here or parts.scheme == "https"):
        raise ValueError("an issuer's address must be https:// (http:// on this machine alone)")
    return url


class _NoRedirects(HTTPRedirectHandler):
    """Nobody else speaks for the issuer."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none; the answer then counts as an error."""


def _opened(opener: OpenerDirector, request: Request) -> Any:
    try:
        return opener.open(request, timeout=_DEADLINE)
    except HTTPError as error:
        error.close()  # it holds the connection
        raise


def fetch_json(url: str) -> object:
    """Read a JSON document of at most 1 MiB.

    Raises ``OSError``, ``HTTPException``, ``ValueError``, ``RecursionError``.
    """
    require_trusted(url)
    proxies = [ProxyHandler({})] if urlsplit(url).scheme == "http" else []
    opener = build_opener(_NoRedirects, *proxies)
    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310 - judged above
    end = time.monotonic() + _DEADLINE
    body = b""
    with _opened(opener, request) as response:
        while chunk := response.read1(64 * 1024):
            body += chunk
            if len(body) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
            if time.monotonic() > end:
                raise TimeoutError("the answer does not end")
    found: object = json.loads(body)
    return found
