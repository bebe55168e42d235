"""Judges bearer tokens of an OpenID Connect issuer."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Final

import jwt

from taskbell.producer.api.issuer import ALGORITHMS, Issuer, IssuerAway
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.remembered import Remembered
from taskbell.producer.api.settings import ApiSettings
from taskbell.producer.rules import require_owner
from taskbell.shared.events import Event, Level, Observer
from taskbell.shared.text import storable

_LEEWAY_SECONDS: Final = 30
_BELIEVED_SECONDS: Final = 60.0
_MOST_REMEMBERED: Final = 10_000
_NAME_BYTES: Final = 200
_RETRY_AFTER: Final = 5
_AWAY: Final = "tokens: the issuer's keys could not be fetched the last time"
# A stranger's token may hold anything where a number or a name is expected.
_UNACCEPTABLE: Final = (
    jwt.PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError,
)  # fmt: skip

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenRefused(Event):
    """A token was not accepted; the caller is not told why, and the token is not repeated."""

    level: ClassVar[Level] = Level.DEBUG
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Which claims say whose tasks a token reaches, and what it may do."""

    owner_claim: str = "sub"
    scope_claim: str = "scope"
    scope_prefix: str = "taskbell:"

    def principal_of(self, claims: Claims) -> Principal:
        """Map verified claims; scopes that are not ours allow nothing. Raises ``ValueError``."""
        owner_id = require_owner(self.owner_claim, claims.get(self.owner_claim))
        if not owner_id:
            raise ValueError("no owner")
        granted: object = claims.get(self.scope_claim)
        words = granted.split() if isinstance(granted, str) else granted
        if not isinstance(words, list):
            words = []
        scopes = frozenset(scope for scope in Scope if f"{self.scope_prefix}{scope}" in words)
        # Marked as a token's, so that no subject can pass itself off as a key or a user here.
        name = storable(f"oidc:{claims.get('sub') or owner_id}", _NAME_BYTES)
        return Principal(name, owner_id, scopes)


class Tokens:
    """Accepts what the issuer signed for this audience and what has not expired."""

    def __init__(self, issuer: Issuer, audience: str, reading: Reading, observe: Observer) -> None:
        self._issuer = issuer
        self._audience = audience
        self._reading = reading
        self._observe = observe
        self._good = Remembered[Principal](_MOST_REMEMBERED, time.monotonic)

    async def principal_of(self, token: str) -> Principal | None:
        """Return whose token it is, or None.

        Raises ``Problem`` if the issuer must be asked and is away.
        """
        digest = sha256(token.encode()).digest()
        if (known := self._good.get(digest)) is not None:
            return known
        try:
            claims = await self._verified(token)
            principal = self._reading.principal_of(claims)
            left = int(claims["exp"]) - time.time()
        except IssuerAway:
            headers = {"Retry-After": str(_RETRY_AFTER)}
            raise Problem("issuer-away", headers=headers, retry_after=_RETRY_AFTER) from None
        except _UNACCEPTABLE as error:
            self._observe(TokenRefused(type(error).__name__))
            return None
        self._good.keep(digest, principal, min(left, _BELIEVED_SECONDS))
        return principal

    def degraded(self) -> list[str]:
        """Name the issuer if it could not be asked the last time."""
        return [_AWAY] if self._issuer.is_away else []

    async def at_rest(self) -> None:
        """Return once the issuer is not being asked any more."""
        await self._issuer.at_rest()

    async def _verified(self, token: str) -> Claims:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS or "crit" in header:
            raise jwt.InvalidAlgorithmError
        key = await self._issuer.key_for(kid, algorithm)
        if key is None:
            raise jwt.InvalidKeyError
        claims: Claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=self._audience,
            issuer=self._issuer.issuer,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["aud", "exp", "iss"]},
        )
        return claims


def tokens_of(settings: ApiSettings, observe: Observer) -> Tokens | None:
    """Give the judge of tokens, if an issuer is set; raises ``ValueError``."""
    if settings.oidc_issuer is None:
        return None
    if not settings.oidc_audience:
        raise ValueError("TASKBELL_OIDC_ISSUER needs TASKBELL_OIDC_AUDIENCE: whom tokens are for")
    issuer = Issuer(settings.oidc_issuer, settings.oidc_jwks_url, observe)
    reading = Reading(
        settings.oidc_owner_claim, settings.oidc_scope_claim, settings.oidc_scope_prefix
    )
    return Tokens(issuer, settings.oidc_audience, reading, observe)
