"""Each role does its whole work as its own user of the database and of RabbitMQ."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest

from services.guarded import Port
from support import practice
from support.fleet import Fleet, open_fleet
from support.rabbitmq import Vhost
from support.users import users_of_roles
from support.waiting import wait_until
from support.web import Caller, new_key
from taskbell.producer import NewTask, Producer
from taskbell.relay import permissions
from taskbell.relay.application import apply_topology
from taskbell.relay.permissions import BrokerUser
from taskbell.shared import audit
from taskbell.shared.database import Database, DedicatedConnection, conninfo
from taskbell.shared.maintenance.caretaker import Duty
from taskbell.shared.maintenance.measure import Measure
from taskbell.shared.maintenance.promote import Promote
from taskbell.shared.maintenance.prune import Prune
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.topology import QueueType

APPLICATION = "support.effects"
STATUS = "SELECT status FROM taskbell.task WHERE id = %s"


@pytest.fixture
def users(database_url: str) -> Iterator[Mapping[str, str]]:
    """The database as each role's user; of the business tables the consumer's may do all."""
    with users_of_roles(database_url) as urls:
        yield urls


@pytest.fixture
def fleet(
    tmp_path: Path, database_url: str, vhost: Vhost, users: Mapping[str, str]
) -> Iterator[Fleet]:
    """Relay and consumer, each as its own user here and there."""
    asyncio.run(
        apply_topology(_user(vhost, permissions.ADMIN), ["default"], QueueType.CLASSIC, _ignore)
    )
    for opened in open_fleet(tmp_path, database_url, None):
        practice.furnish(database_url)
        _open_business(database_url, users["consumer"])
        opened.environment |= {"TASKBELL_RELAY_DECLARE": "never"}
        opened.roles_url, opened.amqp_url = users["relay"], _user(vhost, permissions.RELAY)
        opened.start_relay()
        opened.roles_url, opened.amqp_url = users["consumer"], _user(vhost, permissions.CONSUMER)
        opened.start_consumer(application=APPLICATION)
        yield opened


@pytest.fixture
def port() -> Iterator[int]:
    """Where the HTTP interface is."""
    held = Port()
    yield held.number
    held.release()


def _user(vhost: Vhost, user: BrokerUser) -> str:
    return vhost.add_user(user.name, configure=user.configure, write=user.write, read=user.read)


def _ignore(_line: str) -> None:
    return


def _open_business(database_url: str, consumers_url: str) -> None:
    with psycopg.connect(conninfo(consumers_url)) as consumer:
        name = consumer.info.user
    with psycopg.connect(conninfo(database_url)) as owner:
        owner.execute(f"GRANT USAGE ON SCHEMA acceptance TO {name}".encode())
        owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA acceptance TO {name}".encode())


def _wait(fleet: Fleet, task_id: UUID, status: str) -> None:
    wait_until(
        f"{task_id} is {status}",
        lambda: [r.status for r in fleet.rows(STATUS, task_id)] == [status],
    )


@pytest.mark.timeout(480)
def test_a_tasks_whole_life_needs_no_more_than_was_granted(
    fleet: Fleet, users: Mapping[str, str], port: int
) -> None:
    born = _enqueue(users["producer"])
    for task_id in born:
        _wait(fleet, task_id, "COMPLETED")

    dead = _one(users["producer"], NewTask("poison", {}, max_attempts=2))
    _wait(fleet, dead, "FAILED")
    assert fleet.ask("SELECT max(attempt) FROM taskbell.failure") == 2
    waiting = _one(users["producer"], NewTask("hold", {}, delay=3600.0))
    running = _one(users["producer"], NewTask("hold_long", {"seconds": 600}))
    wait_until("it runs", lambda: fleet.rows("SELECT 1 FROM taskbell.lease"))
    _operate(fleet, _served(fleet, users, port), dead, waiting, running)
    _wait(fleet, running, "CANCELLED")
    _wait(fleet, dead, "FAILED")  # once more

    killer = _one(users["producer"], NewTask("assassin", {}, max_attempts=1))
    _wait(fleet, killer, "FAILED")  # nobody lived to settle it: the relay's reaper did
    for role in ("relay", "consumer"):
        asyncio.run(_maintain(users[role]))
    assert fleet.ask("SELECT count(*) FROM taskbell.task WHERE status = 'COMPLETED'") == 0
    assert asyncio.run(_audit(users["migrator"])) == []
    for log in fleet.directory.glob("*.log"):
        assert "permission denied" not in log.read_text(encoding="utf-8"), log


def _enqueue(url: str) -> list[UUID]:
    """One of each kind: with a key, of a partition, with an effect, in a batch."""
    producer = Producer()
    with psycopg.connect(conninfo(url)) as connection:
        single = [
            producer.enqueue(connection, "hold", {"seconds": 0}, idempotency_key="k"),
            producer.enqueue(connection, "hold", {"seconds": 0}, idempotency_key="k"),
            producer.enqueue(connection, "charge", {}),
            producer.enqueue(connection, "deliver", {}),
        ]
        line = [NewTask("hold", {"seconds": 0}, partition_key="p") for _ in range(3)]
        keyed = [NewTask("hold", {"seconds": 0}, idempotency_key=f"k{n}") for n in range(3)]
        born = [*single, *producer.enqueue_many(connection, [*line, *keyed])]
    assert [each.created for each in born] == [True, False, *[True] * 8]
    return [each.task_id for each in born]


def _one(url: str, task: NewTask) -> UUID:
    with psycopg.connect(conninfo(url)) as connection:
        return Producer().enqueue(connection, task).task_id


def _operate(fleet: Fleet, caller: Caller, dead: UUID, waiting: UUID, running: UUID) -> None:
    """Do over HTTP all that can be done there; keys are the migrator's business."""
    key = {"Idempotency-Key": "another"}
    body = {"type": "hold", "queue": "elsewhere", "payload": {"seconds": 0}, "partition_key": "p"}
    assert [caller.ask("POST", "/tasks", body, key).status for _ in range(2)] == [201, 200]
    assert caller.ask("POST", "/tasks/batch", {"tasks": [body, body]}).status == 201
    for path in _READ:
        answer = caller.ask("GET", path.format(dead=dead))
        assert answer.status == 200, (path, answer.text)
    assert caller.ask("POST", "/queues/elsewhere/pause").status == 200
    assert caller.ask("POST", "/queues/elsewhere/resume").status == 200
    assert caller.ask("POST", f"/tasks/{waiting}/cancel").json["answer"] == "cancelled"
    assert caller.ask("POST", f"/tasks/{running}/cancel").json["answer"] == "requested"
    assert caller.ask("GET", f"/tasks/{waiting}/events").status == 200
    assert caller.ask("POST", f"/tasks/{dead}/redrive").status == 200
    many = {"task_ids": [str(dead)]}
    assert caller.ask("POST", "/dead-letters/redrive", many).json["redriven"] == 0
    assert _peers_of(fleet.pid("api")).isdisjoint(_broker_ports(fleet))
    actions = fleet.rows("SELECT action FROM taskbell.audit_log ORDER BY id")
    assert [each.action for each in actions] == [
        "key create", "pause", "resume", "cancel", "cancel", "redrive",
    ]  # fmt: skip


_READ = (
    "/readyz", "/metrics", "/openapi.json", "/queues", "/workers", "/tasks", "/tasks?status=FAILED",
    "/tasks?status=PENDING", "/tasks?status=IN_PROGRESS", "/dead-letters", "/dead-letters/causes",
    "/dead-letters/{dead}", "/tasks/{dead}", "/tasks/{dead}/payload",
)  # fmt: skip


def _served(fleet: Fleet, users: Mapping[str, str], port: int) -> Caller:
    fleet.roles_url = users["api"]
    fleet.environment["TASKBELL_API_PORT"] = str(port)
    fleet.start("api", "taskbell.producer.api")
    return Caller(port, new_key(users["migrator"], ""))


def _broker_ports(fleet: Fleet) -> set[int]:
    port = urlsplit(fleet.amqp_url or "").port
    assert port is not None
    assert port in _peers_of(fleet.pid("consumer"))  # or this would find nothing anywhere
    return {port}


def _peers_of(pid: int) -> set[int]:
    """The ports that this process is connected to."""
    inodes: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            inodes.add(str(descriptor.readlink()))
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        lines = Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]
        for fields in map(str.split, lines):
            if f"socket:[{fields[9]}]" in inodes:
                ports.add(int(fields[2].rpartition(":")[2], 16))
    return ports


async def _maintain(url: str) -> None:
    connection = DedicatedConnection(Database(url), "test")
    duties: list[Duty] = [Reap(), Promote(), Measure(), Prune(keep_days=1e-9)]
    try:
        for duty in duties:
            await duty.run_once(connection)
    finally:
        await connection.close()


async def _audit(url: str) -> list[audit.Finding]:
    connection = DedicatedConnection(Database(url), "test")
    try:
        return await audit.look(connection)
    finally:
        await connection.close()
