"""Storages for tests: a directory, and a server that speaks S3 (moto's, a process of its own)."""

import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from services.guarded import LOOPBACK, Guarded, Port, bare_environment
from support.waiting import PATIENCE
from taskbell.shared.storage import Storage

_WITHIN: Final = "deep/er"
# The server tells whoever signs from whoever does not, and does not look at the signature.
_SIGNED: Final = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=someone/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}


@dataclass
class Stand:
    """A storage, and the way round it."""

    url: str
    storage: Storage
    directory: Path | None = None
    """Of a directory."""
    bucket: str | None = None
    """Of an S3 server: the address of its bucket."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What a process finds the storage by, besides the URL."""

    @property
    def is_signing(self) -> bool:
        """Whether it signs links."""
        return self.bucket is not None

    def write(self, path: str, body: bytes) -> None:
        """Write an object past everybody."""
        if self.directory is not None:
            file = self.directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        else:
            http("PUT", f"{self.bucket}/{_WITHIN}/{path}", body, _SIGNED)

    def holds(self, path: str) -> bool:
        """Whether there is such an object."""
        if self.directory is not None:
            return (self.directory / path).is_file()
        try:
            http("GET", f"{self.bucket}/{_WITHIN}/{path}", headers=_SIGNED)
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def remove(self, path: str) -> None:
        """Delete an object past everybody."""
        if self.directory is not None:
            (self.directory / path).unlink()
        else:
            http("DELETE", f"{self.bucket}/{_WITHIN}/{path}", headers=_SIGNED)

    def remove_root(self) -> None:
        """Take the whole bucket, or directory, away; it must be empty."""
        if self.directory is not None:
            for each in sorted(self.directory.rglob("*"), reverse=True):
                each.rmdir()
            self.directory.rmdir()
        else:
            http("DELETE", str(self.bucket), headers=_SIGNED)


def http(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """Ask an HTTP server, without credentials unless ``headers`` bring some."""
    sent = {"Content-Type": "application/octet-stream", **(headers or {})}
    asked = urllib.request.Request(url, body, sent, method=method)  # noqa: S310 - the test's server
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310 - the test's server
        found: bytes = answer.read()
        return found


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that speaks S3."""
    home = tmp_path_factory.mktemp("s3")
    port = Port()
    server = Guarded(
        [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)],
        environment=bare_environment(home),
        log=home / "log",
        stop_signal=signal.SIGTERM,
    )
    url = f"http://{LOOPBACK}:{port}"

    def ready() -> bool:
        try:
            http("GET", f"{url}/moto-api/data.json")
        except OSError:
            return False
        return True

    try:
        server.start()
        server.wait_ready("the S3 server", ready, PATIENCE)
        yield url
    finally:
        server.close()
        port.release()


def s3_environment(endpoint: str) -> dict[str, str]:
    """What AWS's own tools are told by as well."""
    return {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-test",
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture
def file_stand(tmp_path: Path) -> Stand:
    """A directory."""
    directory = tmp_path / "a root"
    directory.mkdir()
    url = directory.as_uri()
    return Stand(url, Storage.at(url, inline_bytes=64), directory)


@pytest.fixture
def s3_stand(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """A prefix within a bucket of its own."""
    name = f"bucket-{uuid4().hex}"
    http("PUT", f"{s3_server}/{name}")
    environment = s3_environment(s3_server)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    url = f"s3://{name}/{_WITHIN}"
    storage = Storage.at(url, inline_bytes=64)
    return Stand(url, storage, bucket=f"{s3_server}/{name}", environment=environment)


@pytest.fixture(params=["file", "s3"])
def stand(request: pytest.FixtureRequest) -> Stand:
    """Each of them in turn."""
    found: Stand = request.getfixturevalue(f"{request.param}_stand")
    return found
