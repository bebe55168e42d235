"""``taskbell api`` as a process: it starts without its database, and ends in good order."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx2
import psycopg
import pytest

from services.guarded import LOOPBACK
from support.api import ApiProcesses
from support.fleet import Fleet, open_fleet
from support.issuer import AUDIENCE, IssuerServer
from support.waiting import PATIENCE, wait_until
from taskbell.shared.database import conninfo

NOWHERE = "postgresql://postgres@127.0.0.1:1/nothing"


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Without a broker: the interface knows none."""
    yield from open_fleet(tmp_path, database_url, None)


def _started(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "taskbell.producer.api"],
        env={"TASKBELL_DATABASE_URL": NOWHERE, "TASKBELL_API_AUTH": "off", **environment},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_a_request_that_is_served_is_finished_when_the_process_is_told_to_stop(
    fleet: Fleet, api_processes: ApiProcesses, database_url: str
) -> None:
    url = httpx2.URL(api_processes.start())
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    body = b'{"type":"noop","idempotency_key":"held"}'
    with (
        psycopg.connect(conninfo(database_url)) as holder,
        socket.create_connection((url.host, url.port or 0), PATIENCE) as client,
    ):
        holder.execute("LOCK TABLE taskbell.idempotency IN EXCLUSIVE MODE")
        client.sendall(
            b"POST /tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        wait_until("the request waits", lambda: fleet.ask(waiting))

        fleet.signal("api", signal.SIGTERM)
        wait_until("nobody else is let in", lambda: not _answers(url))
        with pytest.raises(AssertionError, match="still not"):
            wait_until("it leaves the request alone", lambda: fleet.ended("api") is not None, 1)
        holder.rollback()

        assert client.recv(100).startswith(b"HTTP/1.1 201 ")
    wait_until("it ended", lambda: fleet.ended("api") is not None)
    assert fleet.ended("api") == 0
    assert f'"url": "{str(url).rstrip("/")}"' in fleet.tail("api"), "where it listens"
    assert "role_stopped" in fleet.tail("api")


def _answers(url: httpx2.URL) -> bool:
    try:
        socket.create_connection((url.host, url.port or 0), PATIENCE).close()
    except ConnectionError:
        return False
    return True


def test_it_starts_without_its_database_and_serves_once_that_is_there(
    fleet: Fleet, api_processes: ApiProcesses
) -> None:
    url = api_processes.start(DATABASE_URL=NOWHERE)

    alive = httpx2.get(f"{url}/livez")
    away = httpx2.post(f"{url}/tasks", json={"type": "noop"})

    assert alive.status_code == 200
    assert away.status_code == 503
    assert "127.0.0.1:1" not in away.text
    assert fleet.stop("api") == 0


def test_what_is_submitted_by_one_process_is_read_by_another(api_processes: ApiProcesses) -> None:
    one, other = api_processes.start("one"), api_processes.start("other")

    made = httpx2.post(f"{one}/tasks", json={"type": "noop", "payload": {"n": 1}})
    httpx2.post(f"{one}/tasks", json={"type": "noop"})
    listed = httpx2.get(f"{one}/tasks", params={"limit": 1})
    rest = httpx2.get(f"{other}/tasks", params={"limit": 1, "cursor": listed.json()["next"]})

    assert made.status_code == 201
    assert httpx2.get(f"{other}{made.headers['location']}").json()["status"] == "PENDING"
    assert rest.json()["tasks"][0]["task_id"] == made.json()["task_id"]


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"TASKBELL_API_HOST": "203.0.113.1", "TASKBELL_API_AUTH": "on"}, "203.0.113.1"),
        ({"TASKBELL_API_TLS_CERT": "/nothing.pem"}, "TASKBELL_API_TLS_KEY"),
        ({"TASKBELL_API_TLS_CERT": "/nothing", "TASKBELL_API_TLS_KEY": "/nothing"}, "TLS_CERT"),
        ({"TASKBELL_API_PORT": "x"}, "TASKBELL_API_PORT"),
        ({"TASKBELL_DATABASE_URL": "mysql://x"}, "TASKBELL_DATABASE_URL"),
        ({"TASKBELL_STORAGE_URL": "ftp://secret@x"}, "TASKBELL_STORAGE_URL"),
    ],
)
def test_settings_it_cannot_follow_are_told_in_one_line(
    environment: dict[str, str], told: str
) -> None:
    ended = _started(**environment)

    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr
    assert "secret" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_an_address_that_is_taken_is_told_in_one_line() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]

        ended = _started(TASKBELL_API_PORT=str(port))

    assert ended.returncode == 2
    assert ended.stderr.strip() == f"cannot listen on 127.0.0.1:{port}: Address already in use"


def test_a_second_signal_ends_it_at_once(fleet: Fleet, api_processes: ApiProcesses) -> None:
    url = httpx2.URL(api_processes.start(API_GRACE="600"))
    with socket.create_connection((url.host, url.port or 0), PATIENCE) as client:
        client.sendall(b"POST /tasks HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n"
                       b"Content-Type: application/json\r\n\r\n")  # fmt: skip
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        fleet.signal("api", signal.SIGTERM)
        wait_until("nobody else is let in", lambda: not _answers(url))

        fleet.signal("api", signal.SIGTERM)

        wait_until("it ended", lambda: fleet.ended("api") is not None)
    assert fleet.ended("api") == -signal.SIGTERM


def _dripping(handler: BaseHTTPRequestHandler) -> None:
    """Begin an answer whose head never ends; no deadline of a socket ever passes."""
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Head: ")
        while True:
            handler.wfile.write(b"x")
            threading.Event().wait(0.2)
    except OSError:  # whoever asked has gone away
        handler.close_connection = True


def test_an_issuer_that_never_answers_does_not_keep_the_process(
    fleet: Fleet, api_processes: ApiProcesses, issuer: IssuerServer
) -> None:
    issuer.answers["/.well-known/openid-configuration"] = _dripping
    url = api_processes.start(
        API_AUTH="on", OIDC_ISSUER=issuer.url, OIDC_AUDIENCE=AUDIENCE, API_GRACE="1"
    )
    host = httpx2.URL(url)
    with socket.create_connection((host.host, host.port or 0), PATIENCE) as client:
        client.sendall(
            b"GET /tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
            % issuer.token().encode()
        )
        wait_until("the issuer is asked", lambda: issuer.asked)

    fleet.signal("api", signal.SIGTERM)

    # It takes the second of grace, and five in which what is done behind everybody's back may end.
    wait_until("it ended", lambda: fleet.ended("api") is not None, 60)
    assert fleet.ended("api") == 0
    assert "role_stopped" in fleet.tail("api")
