"""Finds out who calls, before anything else is looked at."""

import re
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request

from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.shared.access import is_key

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,8192}=*)", re.ASCII | re.IGNORECASE)
_EVERYBODY: Final = Principal("anonymous", "", frozenset({Scope.ADMIN}))


class Gatekeeper(Protocol):
    """Admits a caller, or raises ``Problem``: ``unauthenticated``, ``forbidden``."""

    async def admit(self, request: Request, scope: Scope) -> Principal:
        """Return who calls, if they may do this."""
        ...

    def degraded(self) -> list[str]:
        """Name what is not there of what the credentials need besides the database; ask nobody."""
        ...

    async def at_rest(self) -> None:
        """Return once nothing is done behind anybody's back any more."""
        ...


class Credentials(Protocol):
    """One kind of credentials."""

    async def principal_of(self, token: str) -> Principal | None:
        """Return whose they are, or None if they are not good; raises ``DatabaseAway``."""
        ...

    def degraded(self) -> list[str]:
        """Name what is not there of what the credentials need besides the database; ask nobody."""
        ...

    async def at_rest(self) -> None:
        """Return once nothing is done behind anybody's back any more."""
        ...


class BearerGatekeeper:
    """Admits whoever sends a good key or a good token as ``Authorization: Bearer …``.

    Nowhere else: an address ends up in logs, and a cookie is sent by pages that the user did not
    mean. Whatever is wrong with the credentials, the answer is the same.
    """

    def __init__(self, keys: Credentials, tokens: Credentials | None) -> None:
        self._keys = keys
        self._tokens = tokens

    async def admit(self, request: Request, scope: Scope) -> Principal:
        """Return who calls; a missing scope is told before anything is looked up."""
        token = _token_of(request)
        principal = await self._principal_of(token) if token is not None else None
        if principal is None:
            raise Problem("unauthenticated", headers={"WWW-Authenticate": "Bearer"})
        if not principal.may(scope):
            raise Problem("forbidden", f"this needs the scope {scope.value}")
        return principal

    def degraded(self) -> list[str]:
        """Name what is not there for one of the kinds."""
        kinds = [self._keys] if self._tokens is None else [self._keys, self._tokens]
        return [each for kind in kinds for each in kind.degraded()]

    async def at_rest(self) -> None:
        """Return once nothing is done behind anybody's back any more."""
        await self._keys.at_rest()
        if self._tokens is not None:
            await self._tokens.at_rest()

    async def _principal_of(self, token: str) -> Principal | None:
        # Neither kind is ever shown to the other's judge.
        if is_key(token):
            return await self._keys.principal_of(token)
        return await self._tokens.principal_of(token) if self._tokens is not None else None


class OpenGatekeeper:
    """Admits everybody who is on this machine, as an administrator.

    Whoever listens on a loopback address can still be reached by web pages in a browser of this
    machine: under a name of theirs that leads here, or by posting without reading the answer. Both
    say so, and are refused.
    """

    async def admit(self, request: Request, scope: Scope) -> Principal:
        """Return an administrator."""
        del scope
        asked = [f"http://{host}" for host in request.headers.getlist("host")]
        if not all(_is_local(url) for url in asked + request.headers.getlist("origin")):
            raise Problem("forbidden", "without authentication this machine alone is served")
        return _EVERYBODY

    def degraded(self) -> list[str]:
        """Name nothing."""
        return []

    async def at_rest(self) -> None:
        """Return at once."""


def is_loopback(host: str) -> bool:
    """Whether this is an address that only this machine can reach; a name is none."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "localhost" or is_loopback(host)


def _token_of(request: Request) -> str | None:
    said = request.headers.getlist("authorization")
    found = _BEARER.fullmatch(said[0]) if len(said) == 1 else None
    return found[1] if found else None
