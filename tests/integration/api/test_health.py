"""Alive, ready and metrics; what still works while the database takes no writes, or is away."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import psycopg
import pytest
from psycopg import sql

from integration.api.callers import problem, submit
from support.api import Api, MakeApi, open_api
from support.hands import Hands
from taskbell.producer.api.principal import Principal, Scope
from taskbell.shared.database import conninfo
from taskbell.shared.maintenance.measure import Measure

NOBODY_LISTENS = "postgresql+psycopg://user@127.0.0.1:1/nothing"


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Api]:
    """The interface on another database."""
    api = open_api(url)
    try:
        yield api
    finally:
        await api.close()


@contextmanager
def read_only(url: str) -> Generator[None]:
    """New sessions of this database take no writes meanwhile."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        setting = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
        connection.execute(setting.format(database))
        try:
            yield
        finally:
            connection.execute("SET default_transaction_read_only = off")
            reset = sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only")
            connection.execute(reset.format(database))


async def test_a_process_with_everything_is_alive_and_ready(api: Api) -> None:
    alive, ready = await api.client.get("/livez"), await api.client.get("/readyz")

    assert alive.json() == {"alive": True}
    assert ready.json() == {"ready": True, "missing": [], "degraded": []}


async def test_without_a_database_it_is_alive_not_ready_and_says_so() -> None:
    async with opened(NOBODY_LISTENS) as api:
        alive, ready = await api.client.get("/livez"), await api.client.get("/readyz")
        read = await api.client.get("/tasks/019390d5-7c1e-7b3a-9f00-3a1f5a0c7d11")
        page = (await api.client.get("/metrics")).text

    assert alive.status_code == 200
    assert (ready.status_code, problem(ready)) == (503, "database-away")
    assert ready.json()["missing"] == ["database"]
    assert int(ready.headers["retry-after"]) > 0
    assert problem(read) == "database-away"
    assert "taskbell_database_up 0" in page


async def test_readiness_names_the_schema_that_is_missing(empty_database_url: str) -> None:
    async with opened(empty_database_url) as api:
        ready = await api.client.get("/readyz")

    assert (ready.status_code, problem(ready)) == (503, "not-migrated")
    (missing,) = ready.json()["missing"]
    assert missing.startswith("schema: the schema is missing")


async def test_readiness_names_the_secret_that_is_missing(api: Api, database_url: str) -> None:
    with psycopg.connect(conninfo(database_url)) as connection:
        connection.execute("DELETE FROM taskbell.secret")

    ready = await api.client.get("/readyz")

    assert (ready.status_code, ready.json()["missing"]) == (503, ["cursor secret"])


async def test_reads_are_served_while_the_database_takes_no_writes_and_writes_again_afterwards(
    make_api: MakeApi, api: Api, database_url: str
) -> None:
    task_id = await submit(api.client)
    with read_only(database_url):
        replica = make_api()
        written = await replica.client.post("/tasks", json={"type": "noop"})
        cancelled = await replica.client.post(f"/tasks/{task_id}/cancel")
        read = await replica.client.get(f"/tasks/{task_id}")
        ready = await replica.client.get("/readyz")

    assert [(each.status_code, problem(each)) for each in (written, cancelled)] == [
        (503, "database-read-only")
    ] * 2
    assert int(written.headers["retry-after"]) > 0
    assert (read.status_code, read.json()["status"]) == (200, "PENDING")
    assert ready.json()["degraded"] == ["writes: the database is read-only"]
    # A connection of before is given up by the first write it refuses.
    answers = [(await replica.client.post("/tasks", json={"type": "noop"})) for _ in range(2)]
    assert answers[-1].status_code == 201


async def test_metrics_know_no_owner_key_id_or_type_whatever_is_sent(
    api: Api, worker: Hands
) -> None:
    task_id = await submit(api.client, type="secret_type", queue="mail", correlation_id="corr-17")
    await Measure().run_once(worker.connection)
    for path in (f"/tasks/{task_id}", "/nowhere/canary", "/tasks/canary", "/queues/canary/resume"):
        await api.client.request("GET", path)
        await api.client.request("CANARY", path)
    await api.client.post("/tasks", json={"type": "canary", "canary": 1})

    page = (await api.client.get("/metrics")).text

    for word in ("canary", "CANARY", "alice", "tbk_", str(task_id), "secret_type", "corr-17"):
        assert word not in page
    assert 'taskbell_queue_depth{queue="mail"} 1' in page
    assert 'route="/tasks/{task_id}",method="GET",status="200"} 1' in page
    assert 'taskbell_tasks_submitted_total{created="true"} 1' in page
    assert 'taskbell_refused_total{reason="invalid-task"} 1' in page
    assert "taskbell_database_up 1" in page


async def test_metrics_are_for_operators_unless_they_are_opened(make_api: MakeApi) -> None:
    reader = Principal("tbk_r", "alice", frozenset({Scope.READ}))

    assert problem(await make_api().as_(reader).get("/metrics")) == "forbidden"
    opened = await make_api(api_metrics_open=True).as_(reader).get("/metrics")
    assert opened.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert opened.status_code == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_health_needs_no_credentials(api: Api, path: str) -> None:
    stranger = api.as_(Principal("tbk_none", "", frozenset()))

    assert (await stranger.get(path)).status_code == 200
