"""Reads JSON from addresses that only their owner can answer for."""

import json
import time
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from taskbell.producer.api.gatekeeper import is_loopback

DEADLINE: Final = 5.0
"""Seconds for each step of a reading."""
_MOST_BYTES: Final = 1024 * 1024


def require_trusted(url: str) -> str:
    """Refuse an address over which keys could be changed on their way; raises ``ValueError``.

    Likewise one with a user or a password, which no log may show, and which can make another host
    look like the issuer.
    """
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("an issuer's address must not hold a user or a password")
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
        return opener.open(request, timeout=DEADLINE)
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
    end = time.monotonic() + DEADLINE
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
