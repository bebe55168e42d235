"""Event streams: the present state first, each change that can be seen, and an end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.requests import Request

from integration.api.callers import Stream, problem, shape, stream, submit
from services import Postgres
from services.guarded import LOOPBACK
from support.api import ALICE, BOB, Api, MakeApi, open_api, served
from support.hands import Hands, hands
from support.waiting import wait_until
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.routes import events
from taskbell.shared.database import Rows
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.statement import Statement
from taskbell.shared.statements import lease, reading


@asynccontextmanager
async def caller(api: Api) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client over a real connection, on which answers arrive bit by bit."""
    async with (
        served(api) as port,
        httpx2.AsyncClient(
            base_url=f"http://{LOOPBACK}:{port}", headers=api.doorman.header_of(ALICE),
            timeout=None,
        ) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture
async def client(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    async with caller(api) as ours:
        yield ours


async def test_a_stream_begins_with_the_present_state_tells_each_change_and_ends(
    client: httpx2.AsyncClient, worker: Hands
) -> None:
    task_id = await submit(client, correlation_id="order 17")
    async with stream(client, task_id) as following:
        assert following.response.status_code == 200
        assert following.response.headers["content-type"].startswith("text/event-stream")
        waiting = await following.state()
        (held,) = await worker.claim()
        running = await following.state()
        await worker.connection.run(
            lease.PROGRESS, task_ids=[task_id], attempts=[held.attempt],
            progress=['{"done": 0.5}'], worker_id="w",
        )  # fmt: skip
        half = await following.state()
        await worker.complete([held])
        completed, ended = await following.rest()

    assert (waiting["status"], waiting["attempts"]) == ("PENDING", 0)
    assert (waiting["task_id"], waiting["correlation_id"]) == (str(task_id), "order 17")
    assert (running["status"], running["attempts"], running["progress"]) == ("IN_PROGRESS", 1, None)
    assert half["progress"] == {"done": 0.5}
    assert (completed.name, completed.data["status"]) == ("state", "COMPLETED")
    assert (ended.name, ended.id) == ("end", completed.id)


async def test_a_stream_resumed_at_the_final_state_gets_204(
    client: httpx2.AsyncClient, worker: Hands
) -> None:
    task_id = await submit(client)
    await worker.complete(await worker.claim())
    async with stream(client, task_id) as following:
        last = (await following.rest())[-1].id

    async with stream(client, task_id, last) as resumed:
        assert resumed.response.status_code == 204
    async with stream(client, task_id, "0-PENDING") as resumed:
        names = [event.name for event in await resumed.rest()]
    assert names == ["state", "end"]


async def test_a_stream_resumed_at_the_present_state_tells_only_what_is_new(
    client: httpx2.AsyncClient, worker: Hands
) -> None:
    task_id = await submit(client)
    async with stream(client, task_id) as following:
        first = await following.next()
    assert first is not None

    async with stream(client, task_id, first.id) as resumed:
        await worker.claim()
        assert (await resumed.state())["status"] == "IN_PROGRESS"


async def test_two_follow_one_task_and_each_is_told(
    client: httpx2.AsyncClient, worker: Hands
) -> None:
    task_id = await submit(client)
    async with stream(client, task_id) as one, stream(client, task_id) as two:
        for each in (one, two):
            await each.state()
        await worker.complete(await worker.claim())
        both = await asyncio.gather(one.rest(), two.rest())

    assert [events[-1].name for events in both] == ["end", "end"]


async def test_anothers_stream_cannot_be_told_from_a_missing_one(api: Api) -> None:
    task_id = await submit(api.client)
    bob = api.as_(BOB)

    others = await bob.get(f"/tasks/{task_id}/events")
    missing = await bob.get(f"/tasks/{str(task_id)[:-4]}0000/events")

    assert shape(others) == shape(missing)
    assert problem(others) == "not-found"


async def test_more_streams_than_there_may_be_are_told_to_come_back(make_api: MakeApi) -> None:
    api = make_api(api_streams=0)
    task_id = await submit(api.client)

    refused = await api.client.get(f"/tasks/{task_id}/events")

    assert (refused.status_code, problem(refused)) == (503, "overloaded")
    assert int(refused.headers["retry-after"]) > 0


async def test_one_owner_cannot_have_all_the_streams(make_api: MakeApi) -> None:
    api = make_api(api_streams=2, api_owner_streams=1, api_stream_seconds=30)
    task_id, bobs = await submit(api.client), await submit(api.as_(BOB))
    async with caller(api) as client:
        theirs = api.doorman.header_of(BOB)
        async with stream(client, task_id) as following:
            await following.state()
            refused = await client.get(f"/tasks/{task_id}/events")
            headers = await client.head(f"/tasks/{bobs}/events", headers=theirs)
            async with client.stream("GET", f"/tasks/{bobs}/events", headers=theirs) as others:
                assert others.status_code == 200

    assert (refused.status_code, problem(refused)) == (429, "rate-limited")
    assert int(refused.headers["retry-after"]) > 0
    assert headers.status_code == 200  # and holds no place
    assert api.parts.metrics.streams == 0


async def test_a_stream_ends_after_its_time_without_saying_that_the_task_did(
    make_api: MakeApi,
) -> None:
    api = make_api(api_stream_seconds=1)
    task_id = await submit(api.client)
    async with caller(api) as client, stream(client, task_id) as following:
        events = await following.rest()

    assert [event.name for event in events] == ["state"]
    assert api.parts.metrics.streams == 0


async def test_a_stream_tells_nothing_more_to_whom_may_not_read_any_more(
    api: Api, client: httpx2.AsyncClient, worker: Hands
) -> None:
    task_id = await submit(client)
    async with stream(client, task_id) as following:
        await following.state()
        api.doorman.forget(ALICE)
        await worker.claim()

        assert await following.rest() == []


async def test_a_quiet_stream_of_who_may_not_read_any_more_ends_at_a_beat(
    api: Api, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_BEAT_SECONDS", 0.1)
    task_id = await submit(client)
    async with stream(client, task_id) as following:
        await following.state()
        api.doorman.forget(ALICE)

        assert await following.rest() == []


async def test_a_stream_goes_on_while_nobody_can_say_whether_it_may(
    api: Api, client: httpx2.AsyncClient, worker: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_BEAT_SECONDS", 0.1)
    monkeypatch.setattr(events, "_AGAIN_SECONDS", 0.1)
    task_id = await submit(client)
    admit, away = api.doorman.admit, [DatabaseAway("gone"), Problem("issuer-away")] * 5

    async def sometimes(request: Request, scope: Scope) -> Principal:
        if request.url.path.endswith("/events") and away:
            raise away.pop()
        return await admit(request, scope)

    async with stream(client, task_id) as following:
        await following.state()
        monkeypatch.setattr(api.doorman, "admit", sometimes)
        await worker.complete(await worker.claim())
        states = await told(following)

    assert states[-1] == "COMPLETED"
    assert not away


async def test_streams_end_when_the_process_stops_and_none_begins_after(
    api: Api, client: httpx2.AsyncClient
) -> None:
    task_id = await submit(client)
    async with stream(client, task_id) as following:
        await following.state()
        api.parts.watcher.stop()
        assert await following.rest() == []

    async with stream(client, task_id) as late:
        assert [event.name for event in await late.rest()] == ["state"]


async def test_a_client_that_goes_away_ends_its_stream(
    api: Api, client: httpx2.AsyncClient
) -> None:
    task_id = await submit(client)
    async with stream(client, task_id) as following:
        await following.state()
        assert api.parts.metrics.streams == 1

    metrics = api.parts.metrics
    await asyncio.to_thread(wait_until, "no stream is open", lambda: metrics.streams == 0)


async def test_a_stream_goes_on_although_the_database_is_away_just_when_it_reads(
    api: Api, client: httpx2.AsyncClient, worker: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await submit(client)
    run, away = api.parts.connections.run, [2, 3]

    async def sometimes(statement: Statement, **parameters: object) -> Rows:
        if statement is reading.READ:
            away[:] = [number - 1 for number in away]
            if 0 in away:
                raise DatabaseAway("gone for a moment")
        return await run(statement, **parameters)

    monkeypatch.setattr(api.parts.connections, "run", sometimes)
    async with stream(client, task_id) as following:
        await following.state()
        await worker.complete(await worker.claim())
        states = await told(following)

    assert states[-1] == "COMPLETED"
    assert max(away) < 0


@asynccontextmanager
async def watched(api: Api) -> AsyncGenerator[None]:
    """The watcher runs meanwhile."""
    watching = asyncio.ensure_future(api.parts.watcher.run())
    try:
        yield
    finally:
        api.parts.watcher.stop()
        watching.cancel()
        await asyncio.wait({watching})
        await api.close()


async def test_a_stream_outlives_a_restart_of_postgres(
    private_postgres: Postgres, private_database_url: str
) -> None:
    api = open_api(private_database_url)
    async with watched(api), caller(api) as client:
        task_id = await submit(client)
        async with stream(client, task_id) as following:
            await following.state()
            await asyncio.to_thread(private_postgres.restart_immediately)
            await finish(private_database_url)
            states = await told(following)

    assert states[-1] == "COMPLETED"


async def finish(url: str) -> None:
    """Claim and complete what waits."""
    async with hands(url) as worker:
        await worker.complete(await worker.claim())


async def told(following: Stream) -> list[str]:
    """The states until the stream ends."""
    return [event.data["status"] for event in await following.rest() if event.name == "state"]
