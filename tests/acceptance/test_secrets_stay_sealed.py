"""A secret goes through success, retry, dead letter, cancel and crash, and only seals hold it."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from services.guarded import Port
from support.fleet import Fleet, open_fleet
from support.keyrings import ring
from support.rabbitmq import Vhost
from support.waiting import wait_until
from support.web import Caller, new_key

APPLICATION = "support.canary"
TAP = "everything-announced"
COMPLETED = ("succeed", "retry", "crash", "apart")
FAILED = ("die", "refuse")
KINDS = (*COMPLETED, *FAILED, "linger")


@dataclass(frozen=True)
class Scene:
    """What ran, and who may and may not see what it left."""

    fleet: Fleet
    vhost: Vhost
    owner: Caller
    stranger: Caller
    """Of another owner, and an operator."""
    secret: str
    ids: Mapping[str, str]


def _logs(scene: Scene) -> str:
    paths = sorted(scene.fleet.directory.rglob("*.log"))
    return "\n".join(path.read_text("utf-8", "replace") for path in paths)


def _database(scene: Scene) -> str:
    """Every row of every table as text; bytes are shown as hex."""
    tables = scene.fleet.rows(
        "SELECT CAST(c.oid AS regclass) AS name FROM pg_class c"
        " WHERE c.relkind IN ('r', 'p', 'm') AND c.relnamespace = 'taskbell'::regnamespace"
    )
    assert len(tables) > 10
    return "\n".join(
        each.row
        for table in tables
        for each in scene.fleet.rows(f"SELECT CAST(t AS text) AS row FROM {table.name} t")
    )


def _statements(scene: Scene) -> str:
    """What the server shows of its sessions."""
    found = scene.fleet.rows("SELECT CAST(a AS text) AS row FROM pg_stat_activity a")
    return "\n".join(each.row for each in found)


def _broker(scene: Scene) -> str:
    """Every announcement there was, with its properties, and all definitions."""
    management = scene.vhost.server.management
    got = management.request(
        "POST", "queues", scene.vhost.name, TAP, "get",
        body={"count": 10_000, "ackmode": "ack_requeue_true", "encoding": "auto"},
    )  # fmt: skip
    announced = {task_id for each in got for task_id in json.loads(each["payload"])}
    assert announced & set(scene.ids.values()), "several in an announcement, and a poll takes some"
    definitions = management.request("GET", "definitions", scene.vhost.name)
    return json.dumps([got, definitions])


def _told_to_strangers(scene: Scene) -> str:
    """All that the interface answers to those whose tasks these are not."""
    paths = ["/metrics", "/queues", "/workers", "/openapi.json", "/readyz", "/tasks"]
    paths += ["/dead-letters", "/dead-letters/causes"]
    for task_id in scene.ids.values():
        paths += [f"/tasks/{task_id}{part}" for part in ("", "/payload", "/result", "/events")]
        paths.append(f"/dead-letters/{task_id}")
    return "\n".join(scene.stranger.ask("GET", path).text for path in paths)


PLACES: tuple[Callable[[Scene], str], ...] = (
    _logs, _database, _statements, _broker, _told_to_strangers,
)  # fmt: skip
"""Where a secret must not be. Whoever adds a place where it could be adds it here."""


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, vhost: Vhost) -> Iterator[Fleet]:
    """All roles, and a key that seals."""
    for opened in open_fleet(tmp_path, database_url, vhost.url):
        opened.environment |= {
            "TASKBELL_SEAL_KEYS": ring("2026-11"),
            "TASKBELL_LOG_LEVEL": "debug",
        }
        yield opened


@pytest.fixture
def scene(fleet: Fleet, vhost: Vhost) -> Iterator[Scene]:
    """Everything has happened."""
    port = Port()
    fleet.environment["TASKBELL_API_PORT"] = str(port)
    fleet.start_relay()
    _tap(vhost)
    fleet.start("api", "taskbell.producer.api")
    fleet.start_consumer(application=APPLICATION)
    shop, other = (new_key(fleet.database_url, owner) for owner in ("shop", "another"))
    owner, secret = Caller(port.number, shop), f"canary-{uuid4().hex}"
    ids = {kind: _submitted(owner, kind, secret) for kind in KINDS if kind != "crash"}
    scene = Scene(fleet, vhost, owner, Caller(port.number, other), secret, ids)
    wait_until("it lingers", lambda: _status(scene, "linger") == "IN_PROGRESS")
    assert owner.ask("POST", f"/tasks/{ids['linger']}/cancel").status == 202
    _wait(scene, "linger", "CANCELLED")
    _wait_for_all(scene)
    ids["crash"] = _submitted(owner, "crash", secret)
    wait_until("the worker dies", lambda: fleet.ended("consumer") is not None)
    fleet.start_consumer("successor", application=APPLICATION)
    _wait_for_all(scene)
    yield scene
    port.release()


def _tap(vhost: Vhost) -> None:
    """Let the broker keep a copy of every announcement."""
    request = vhost.server.management.request
    request("PUT", "queues", vhost.name, TAP, body={"durable": True})
    where = ("bindings", vhost.name, "e", "taskbell.announce", "q", TAP)
    wait_until(
        "the relay has made its exchange",
        lambda: any(
            each["name"] == "taskbell.announce" for each in request("GET", "exchanges", vhost.name)
        ),
    )
    request("POST", *where, body={"routing_key": "default"})


def _submitted(owner: Caller, kind: str, secret: str) -> str:
    task = {"type": kind, "payload": {"secret": secret}, "max_attempts": 2}
    answer = owner.ask("POST", "/tasks", task, {"Idempotency-Key": f"first-{kind}"})
    assert answer.status == 201, answer.text
    return str(answer.json["task_id"])


def _status(scene: Scene, kind: str) -> str:
    return str(scene.owner.ask("GET", f"/tasks/{scene.ids[kind]}").json["status"])


def _wait(scene: Scene, kind: str, status: str) -> None:
    wait_until(f"{kind} is {status}", lambda: _status(scene, kind) == status)


def _wait_for_all(scene: Scene) -> None:
    """Every task that was submitted so far has ended as it should."""
    for kind in scene.ids.keys() - {"linger"}:
        _wait(scene, kind, "COMPLETED" if kind in COMPLETED else "FAILED")


def _forms(secret: str) -> Iterator[str]:
    """The secret as it is, and as it looks where bytes are shown as text."""
    yield secret
    yield secret.encode().hex()
    for skipped in range(3):  # wherever base64 happens to begin, but for the signs at both ends
        yield base64.b64encode(secret.encode()[skipped:])[:-4].decode()


@pytest.mark.timeout(480)
def test_a_secret_is_nowhere_but_sealed(scene: Scene) -> None:
    for place in PLACES:
        found = place(scene)

        assert found
        assert [form for form in _forms(scene.secret) if form in found] == [], place.__name__

    # It was there all the while, and its owner finds it.
    for kind in COMPLETED:
        assert scene.secret in scene.owner.ask("GET", f"/tasks/{scene.ids[kind]}").text
        assert scene.secret in scene.owner.ask("GET", f"/tasks/{scene.ids[kind]}/payload").text
    for kind in FAILED:
        assert scene.secret in scene.owner.ask("GET", f"/tasks/{scene.ids[kind]}").text
        assert scene.secret in scene.owner.ask("GET", f"/dead-letters/{scene.ids[kind]}").text
