"""The HTTP interface shows its own certificate, and is trusted by its authority and its name."""

import ssl
from collections.abc import Iterator
from http.client import BadStatusLine
from pathlib import Path

import pytest

from services.guarded import LOOPBACK, Port
from support.authority import Authority
from support.fleet import Fleet, open_fleet
from support.web import Caller

NAME = "localhost"


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """A process of the HTTP interface alone."""
    yield from open_fleet(tmp_path, database_url, None)


def test_the_interface_is_trusted_by_its_authority_and_its_name_alone(
    fleet: Fleet, tmp_path: Path
) -> None:
    authority, another = (_made(tmp_path / name) for name in ("authority", "another"))
    chain, key = authority.issue(NAME).write(tmp_path)
    port = Port()
    fleet.environment |= {
        "TASKBELL_API_PORT": str(port),
        "TASKBELL_API_TLS_CERT": str(chain),
        "TASKBELL_API_TLS_KEY": str(key),
    }
    fleet.start("api", "taskbell.producer.api")

    trusted = Caller(port.number, "none", authority.trusting, NAME)
    assert trusted.ask("GET", "/livez").status == 200
    assert trusted.ask("GET", "/tasks").status == 401
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        Caller(port.number, "none", another.trusting, NAME).ask("GET", "/livez")
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        Caller(port.number, "none", authority.trusting, LOOPBACK).ask("GET", "/livez")
    with pytest.raises((BadStatusLine, ConnectionError)):  # in the clear nobody answers
        Caller(port.number, "none", None, NAME).ask("GET", "/livez")
    port.release()


def _made(directory: Path) -> Authority:
    directory.mkdir()
    return Authority(directory)
