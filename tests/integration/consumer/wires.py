"""A proxy before a service, by its URL."""

from urllib.parse import urlsplit

from support.proxy import Proxy


def proxy_for(url: str) -> Proxy:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return Proxy(parts.hostname, parts.port)
