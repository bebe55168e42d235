"""Keys before a process of the HTTP interface: made at the command line, used over the network."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from support.api import ApiProcesses
from support.commands import told
from support.fleet import Fleet, open_fleet
from support.issuer import AUDIENCE, IssuerServer
from support.web import new_key
from taskbell.shared import access


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Processes without a broker, which the interface does not know."""
    yield from open_fleet(tmp_path, database_url, None)


def submit(url: str, token: str) -> httpx2.Response:
    return httpx2.post(
        f"{url}/tasks", json={"type": "noop", "payload": {}},
        headers={"Authorization": f"Bearer {token}"},
    )  # fmt: skip


def test_a_key_opens_the_interface_until_it_is_revoked_and_is_in_no_log(
    fleet: Fleet, api_processes: ApiProcesses
) -> None:
    api = api_processes.start(API_AUTH="on", API_KEY_SECONDS="0", LOG_LEVEL="debug")
    key, reader = (new_key(fleet.database_url, "alice", scope) for scope in ("submit", "read"))
    wrong = access.new_key().text

    answers = [submit(api, token).status_code for token in (key, reader, wrong)]
    told("keys", "revoke", key[:12], "--database-url", fleet.database_url)
    revoked = submit(api, key)

    assert answers == [201, 403, 401]
    assert revoked.status_code == 401
    assert revoked.headers["content-type"] == "application/problem+json"
    log = (fleet.directory / "api.log").read_text(encoding="utf-8")
    assert key[:12] in log
    assert [secret for secret in (key, reader, wrong) if secret[12:] in log] == []
    command = Path(f"/proc/{fleet.pid('api')}/cmdline").read_bytes()
    assert key.encode() not in command


def test_a_token_of_the_issuer_opens_the_interface_and_no_other_does(
    fleet: Fleet, api_processes: ApiProcesses, issuer: IssuerServer
) -> None:
    api = api_processes.start(
        API_AUTH="on", OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE, LOG_LEVEL="debug"
    )
    good, other = issuer.token(), issuer.token(aud="another")

    answers = [submit(api, token).status_code for token in (good, other, good[:-2])]

    assert answers == [201, 401, 401]
    log = (fleet.directory / "api.log").read_text(encoding="utf-8")
    assert '"reason": "InvalidAudienceError"' in log
    assert good.rpartition(".")[2] not in log


def test_without_authentication_only_a_loopback_address_is_served(database_url: str) -> None:
    environment = os.environ | {
        "TASKBELL_DATABASE_URL": database_url, "TASKBELL_API_AUTH": "off",
        "TASKBELL_API_HOST": "0.0.0.0", "TASKBELL_API_PORT": "0",  # noqa: S104 - it is refused
    }  # fmt: skip

    ended = subprocess.run(
        [sys.executable, "-m", "taskbell.producer.api"],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert ended.returncode == 2
    assert ended.stderr == (
        "TASKBELL_API_AUTH=off makes everybody an administrator: "
        "TASKBELL_API_HOST must then be 127.0.0.1 or ::1, not 0.0.0.0\n"
    )
