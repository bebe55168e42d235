"""Finds out who calls."""

from typing import Protocol

from starlette.requests import Request

from taskbell.producer.api.principal import Principal, Scope


class Gatekeeper(Protocol):
    """Admits a caller, or raises ``Problem``: ``unauthenticated``, ``forbidden``."""

    async def admit(self, request: Request, scope: Scope) -> Principal:
        """Return who calls, if they may do this."""
        ...
