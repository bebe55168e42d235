"""Queues and workers for operators."""

from urllib.parse import quote

import pytest

from integration.api.callers import problem, submit
from support.api import Api
from support.hands import Hands
from support.workers import rows
from taskbell.producer.api.principal import Principal, Scope
from taskbell.shared.maintenance.measure import Measure
from taskbell.shared.statements import upkeep


@pytest.mark.parametrize("queue", ["mail", "mail/fast lane", "a/pause", "a.b:c@d#e+f-g"])
async def test_a_queue_is_paused_and_resumed_whatever_its_name(
    api: Api, worker: Hands, queue: str
) -> None:
    await submit(api.client, queue=queue)
    path = f"/queues/{quote(queue, safe='')}"

    paused = await api.client.post(f"{path}/pause")
    taken = await worker.claim(queue=queue)
    resumed = await api.client.post(f"{path}/resume")
    again = await api.client.post(f"{path}/resume")

    assert paused.json() == {"queue": queue, "paused": True, "paused_until": None}
    assert taken == []
    assert resumed.json() == {"queue": queue, "paused": False}
    assert len(await worker.claim(queue=queue)) == 1
    assert (again.status_code, problem(again)) == (409, "not-paused")


async def test_a_pause_may_end_by_itself(api: Api, database_url: str) -> None:
    paused = await api.client.post("/queues/mail/pause?seconds=3600")

    (row,) = rows(
        database_url,
        "SELECT extract(epoch FROM paused_until - clock_timestamp()) AS s FROM taskbell.queue",
    )
    assert paused.json()["paused_until"].endswith("Z")
    assert 3000 < row.s <= 3600


@pytest.mark.parametrize("name", ["a,b", "%20a", "%00", "ü", "x" * 201])
async def test_a_name_that_no_queue_can_have_is_not_found(api: Api, name: str) -> None:
    assert problem(await api.client.post(f"/queues/{name}/pause")) == "not-found"


async def test_queues_are_listed_with_what_was_decided_measured_and_is_so_now(
    api: Api, database_url: str, worker: Hands
) -> None:
    for _ in range(3):
        await submit(api.client, queue="mail")
    await worker.claim(limit=1, queue="mail")
    rows(database_url, "INSERT INTO taskbell.queue (name, max_depth) VALUES ('full', 7)")
    await Measure().run_once(worker.connection)

    full, mail = (await api.client.get("/queues")).json()["queues"]

    assert (full["queue"], full["max_depth"], full["paused"]) == ("full", 7, False)
    assert (mail["queue"], mail["depth"], mail["running"], mail["held"]) == ("mail", 2, 1, 0)
    assert mail["measured_at"].endswith("Z")


async def test_a_list_of_queues_ends_after_a_thousand_and_goes_on_behind_the_last(
    api: Api, database_url: str
) -> None:
    rows(database_url, "INSERT INTO taskbell.queue (name) SELECT 'q' || lpad(CAST(n AS text), 4, "
         "'0') FROM generate_series(1, 1200) AS n")  # fmt: skip

    first = (await api.client.get("/queues")).json()["queues"]
    second = (await api.client.get("/queues", params={"after": first[-1]["queue"]})).json()
    refused = await api.client.get("/queues", params={"after": "\0"})

    assert (first[0]["queue"], first[-1]["queue"], len(first)) == ("q0001", "q1000", 1000)
    assert [each["queue"] for each in second["queues"]] == [f"q{n}" for n in range(1001, 1201)]
    assert problem(refused) == "invalid-task"


async def test_workers_are_listed(api: Api, worker: Hands) -> None:
    await worker.connection.run(
        upkeep.ATTEND, worker_id="consumer@h/1/2", role="consumer", host="h", pid=1, running=2,
        slots=20, queues=["mail"],
    )  # fmt: skip

    (told,) = (await api.client.get("/workers")).json()["workers"]

    assert (told["worker_id"], told["running"], told["slots"], told["queues"]) == (
        "consumer@h/1/2", 2, 20, ["mail"],
    )  # fmt: skip
    assert told["unseen"] >= 0


async def test_only_operators_see_queues_and_workers(api: Api) -> None:
    reader = api.as_(Principal("tbk_r", "alice", frozenset(Scope) - {Scope.OPERATE, Scope.ADMIN}))

    for method, path in (
        ("GET", "/queues"), ("GET", "/workers"),
        ("POST", "/queues/mail/pause"), ("POST", "/queues/mail/resume"),
    ):  # fmt: skip
        assert problem(await reader.request(method, path)) == "forbidden"
