"""Alive, ready and metrics; what still works while the database takes no writes, or is away."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest

from integration.api.callers import problem, submit
from support.api import ADMIN, Api, MakeApi, open_api
from support.hands import Hands
from support.issuer import AUDIENCE, IssuerServer
from support.read_only import read_only
from support.stores import Stand
from support.workers import rows
from taskbell.producer.api.app import build
from taskbell.producer.api.keys import make_gatekeeper
from taskbell.producer.api.metrics import MOST_QUEUES
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.troubles import RequestsRefused
from taskbell.shared.database import conninfo
from taskbell.shared.errors import StorageAway
from taskbell.shared.maintenance.measure import Measure
from taskbell.shared.statements import states

NOBODY_LISTENS = "postgresql+psycopg://user@127.0.0.1:1/nothing"


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncGenerator[Api]:
    """The interface on another database."""
    api = open_api(url, **settings)
    try:
        yield api
    finally:
        await api.close()


async def test_a_process_with_everything_is_alive_and_ready(api: Api) -> None:
    alive, ready = await api.client.get("/livez"), await api.client.get("/readyz")

    assert alive.json() == {"alive": True}
    assert ready.json() == {"ready": True, "missing": [], "degraded": []}


async def test_without_a_database_it_is_alive_not_ready_and_says_so() -> None:
    async with opened(NOBODY_LISTENS) as api:
        alive, ready = await api.client.get("/livez"), await api.client.get("/readyz")
        read = await api.client.get("/tasks/019390d5-7c1e-7b3a-9f00-3a1f5a0c7d11")
        page = (await api.client.get("/metrics")).text

    refused = [event for event in api.events if isinstance(event, RequestsRefused)]
    assert [event.problem for event in refused] == ["database-away"]
    assert "127.0.0.1" in refused[0].error
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


async def test_a_storage_that_is_away_is_told_by_its_last_use_and_leaves_the_process_ready(
    make_api: MakeApi, file_stand: Stand
) -> None:
    client = make_api(storage_url=file_stand.url, storage_inline_bytes=0).client
    directory = file_stand.directory
    assert directory is not None
    before = await client.get("/readyz")
    directory.rmdir()
    unknown = await client.get("/readyz")

    refused = await client.post("/tasks", json={"type": "noop", "payload": {"n": 1}})
    directory.mkdir()
    away = await client.get("/readyz")  # which asks no storage, and so does not see it is back
    stored = await client.post("/tasks", json={"type": "noop", "payload": {"n": 1}})
    back = await client.get("/readyz")

    assert before.json() == unknown.json() == {"ready": True, "missing": [], "degraded": []}
    assert (refused.status_code, problem(refused)) == (503, "storage-away")
    assert (away.status_code, away.json()) == (200, {
        "ready": True, "missing": [],
        "degraded": ["storage: it could not be reached the last time"],
    })  # fmt: skip
    assert (stored.status_code, back.json()["degraded"]) == (201, [])


async def test_an_issuer_that_is_away_is_told_by_its_last_use_and_leaves_the_process_ready(
    make_api: MakeApi, issuer: IssuerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskbell.producer.api.issuer._PAUSE_AFTER_FAILURE", 0.0)
    parts = make_api(api_auth="on", oidc_issuer=issuer.url, oidc_audience=AUDIENCE).parts
    gatekeeper = make_gatekeeper(parts.settings, parts.connections, parts.observe)
    guarded = httpx2.ASGITransport(build(replace(parts, gatekeeper=gatekeeper)))
    headers = {"Authorization": f"Bearer {issuer.token()}"}
    discovery = "/.well-known/openid-configuration"
    answer = issuer.answers.pop(discovery)
    async with httpx2.AsyncClient(transport=guarded, base_url="http://api") as client:
        before = await client.get("/readyz")
        refused = await client.get("/tasks", headers=headers)
        asked = len(issuer.asked)
        issuer.answers[discovery] = answer
        away = await client.get("/readyz")
        assert len(issuer.asked) == asked
        admitted = await client.get("/tasks", headers=headers)
        back = await client.get("/readyz")

    assert before.json()["degraded"] == []
    assert (refused.status_code, problem(refused)) == (503, "issuer-away")
    assert away.status_code == 200
    assert away.json()["degraded"] == [
        "tokens: the issuer's keys could not be fetched the last time"
    ]
    assert (admitted.status_code, back.json()["degraded"]) == (200, [])


async def test_what_is_degraded_is_told_of_a_process_that_is_not_ready_too(
    file_stand: Stand,
) -> None:
    async with opened(NOBODY_LISTENS, storage_url=file_stand.url) as api:
        file_stand.remove_root()
        assert api.parts.storage is not None
        with pytest.raises(StorageAway):
            await api.parts.storage.put("payload", uuid4(), "", b"1")

        ready = await api.client.get("/readyz")

    assert ready.status_code == 503
    assert ready.json()["missing"] == ["database"]
    assert ready.json()["degraded"] == ["storage: it could not be reached the last time"]


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


async def test_two_hundred_queues_are_told_and_the_rest_together(
    api: Api, database_url: str
) -> None:
    rows(
        database_url,
        """INSERT INTO taskbell.queue (name, depth, oldest_age, drain_rate, max_depth, measured_at)
           SELECT 'q' || lpad(CAST(n AS text), 3, '0'), n, n, 0.5, 9, clock_timestamp()
           FROM generate_series(0, 202) n RETURNING name""",
    )
    measures = await api.parts.connections.run(states.MEASURES, most=MOST_QUEUES)
    page = (await api.as_(ADMIN).get("/metrics")).text.splitlines()

    assert len(measures) == MOST_QUEUES + 1
    assert 'taskbell_queue_depth{queue="q199"} 199' in page
    assert not [line for line in page if "q200" in line]
    assert 'taskbell_queue_depth{queue="(other)"} 603' in page
    assert 'taskbell_queue_oldest_seconds{queue="(other)"} 202.0' in page
    assert 'taskbell_queue_drain_rate{queue="(other)"} 1.5' in page
    assert not [line for line in page if line.startswith('taskbell_queue_max_depth{queue="(')]


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
