"""Cancel and redrive: one answer for each, and the loser is told."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from integration.api.callers import failed, problem, shape, submit
from support.api import ALICE, BOB, Api, MakeApi
from support.hands import Hands, session, settling
from support.waiting import wait_until
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context
from taskbell.shared.events import BrokerLost
from taskbell.shared.lifecycle import Verdict
from taskbell.shared.statements import dead_letter, settlement


async def cancel(client: httpx2.AsyncClient, task_id: UUID, wait: int = 0) -> httpx2.Response:
    query = f"?wait={wait}" if wait else ""
    return await client.post(f"/tasks/{task_id}/cancel{query}")


async def test_what_waits_is_cancelled_at_once_and_stays_so(api: Api, database_url: str) -> None:
    task_id = await submit(api.client)

    answers = [await cancel(api.client, task_id) for _ in range(2)]

    assert [(each.status_code, each.json()) for each in answers] == [
        (200, {"task_id": str(task_id), "answer": "cancelled"})
    ] * 2
    assert task_of(database_url, task_id).status == "CANCELLED"


async def test_what_runs_is_asked_for_and_what_ended_is_too_late(api: Api, worker: Hands) -> None:
    running, done = await submit(api.client), await submit(api.client)
    await worker.complete(await worker.claim_ids([done]))
    await worker.claim_ids([running])

    asked, late = await cancel(api.client, running), await cancel(api.client, done)

    assert (asked.status_code, asked.json()["answer"]) == (202, "requested")
    assert (late.status_code, problem(late)) == (409, "too-late")
    assert late.json()["answer"] == "too late: COMPLETED"
    assert late.json()["task_id"] == str(done)


@pytest.mark.parametrize(
    ("verdict", "status", "answer"),
    [("cancelled", 200, "cancelled"), ("completed", 409, "too late: COMPLETED")],
)
async def test_cancelling_with_wait_names_the_winner_whichever_it_is(
    api: Api, database_url: str, worker: Hands, verdict: Verdict, status: int, answer: str
) -> None:
    task_id = await submit(api.client)
    (lease,) = await worker.claim()
    cancelling = asyncio.create_task(cancel(api.client, task_id, wait=30))
    await asyncio.to_thread(
        wait_until, "it is asked for",
        lambda: rows(database_url, "SELECT 1 FROM taskbell.lease WHERE cancel_requested"),
    )  # fmt: skip

    await worker.settle(task_id, lease.attempt, verdict)

    told = await cancelling
    assert (told.status_code, told.json()["answer"]) == (status, answer)


async def test_a_completion_that_is_being_written_wins_and_is_named(
    api: Api, database_url: str, worker: Hands
) -> None:
    task_id = await submit(api.client)
    (lease,) = await worker.claim()
    async with session(database_url) as other:
        await other.run(settlement.SETTLE, **settling("w", task_id, lease.attempt, "completed"))
        cancelling = asyncio.create_task(cancel(api.client, task_id))
        await other.blocks_somebody()
        await other.commit()
        told = await cancelling

    assert (told.status_code, told.json()["answer"]) == (409, "too late: COMPLETED")


async def test_a_wait_ends_although_the_task_does_not(api: Api, worker: Hands) -> None:
    task_id = await submit(api.client)
    await worker.claim()

    told = await cancel(api.client, task_id, wait=1)

    assert (told.status_code, told.json()["answer"]) == (202, "requested")


async def test_who_waits_is_counted_among_the_streams_and_not_among_the_requests(
    make_api: MakeApi, database_url: str, worker: Hands
) -> None:
    api = make_api(api_in_flight=1, api_streams=2, api_owner_streams=1)
    task_id, waiting = await submit(api.client), await submit(api.client)
    (lease,) = await worker.claim_ids([task_id])
    cancelling = asyncio.create_task(cancel(api.client, task_id, wait=30))
    # Looked at from another thread, and through no request.
    traffic = api.parts.traffic
    await asyncio.to_thread(
        wait_until, "it waits",
        lambda: rows(database_url, "SELECT 1 FROM taskbell.lease WHERE cancel_requested")
        and not traffic.in_flight,
    )  # fmt: skip

    served = await api.client.get(f"/tasks/{task_id}")
    refused = await cancel(api.client, waiting, wait=1)
    others = await cancel(api.as_(BOB), waiting, wait=1)
    streams = api.parts.metrics.streams
    await worker.settle(task_id, lease.attempt, "cancelled")

    assert served.status_code == 200
    assert (refused.status_code, problem(refused)) == (429, "rate-limited")
    assert int(refused.headers["retry-after"]) > 0
    assert task_of(database_url, waiting).status == "PENDING"  # nothing was done
    assert problem(others) == "not-found"
    assert streams == 1
    assert (await cancelling).json()["answer"] == "cancelled"
    assert (api.parts.metrics.streams, traffic.in_flight) == (0, 0)


@pytest.mark.parametrize("wait", ["-1", "31", "1.5", "x", ""])
async def test_a_wait_that_is_none_is_refused(api: Api, wait: str) -> None:
    task_id = await submit(api.client)

    refused = await api.client.post(f"/tasks/{task_id}/cancel?wait={wait}")

    assert problem(refused) == "invalid-task"


@pytest.mark.parametrize("deed", ["cancel", "redrive"])
async def test_anothers_task_cannot_be_told_from_one_that_is_missing(
    api: Api, database_url: str, worker: Hands, deed: str
) -> None:
    task_id = await failed(api.client, worker) if deed == "redrive" else await submit(api.client)
    before = task_of(database_url, task_id)
    bob = api.as_(BOB)

    others = await bob.post(f"/tasks/{task_id}/{deed}")
    missing = await bob.post(f"/tasks/{uuid4()}/{deed}")

    assert shape(others) == shape(missing)
    assert problem(others) == "not-found"
    assert task_of(database_url, task_id) == before


async def test_a_failed_task_is_redriven_and_one_that_has_not_failed_is_not(
    api: Api, database_url: str, worker: Hands
) -> None:
    task_id = await failed(api.client, worker)

    first = await api.client.post(f"/tasks/{task_id}/redrive")
    second = await api.client.post(f"/tasks/{task_id}/redrive")

    assert (first.status_code, first.json()["status"]) == (200, "PENDING")
    assert (second.status_code, problem(second)) == (409, "not-failed")
    assert task_of(database_url, task_id).status == "PENDING"


async def test_the_loser_of_two_redrives_is_told(
    api: Api, database_url: str, worker: Hands
) -> None:
    task_id = await failed(api.client, worker)
    async with session(database_url) as other:
        won = await other.run(dead_letter.REDRIVE, task_ids=[task_id], delays=[0.0], actor="other")
        redriving = asyncio.create_task(api.client.post(f"/tasks/{task_id}/redrive"))
        await other.blocks_somebody()
        await other.commit()
        lost = await redriving

    assert len(won) == 1
    assert (lost.status_code, problem(lost)) == (409, "not-failed")
    entries = rows(database_url, "SELECT 1 FROM taskbell.outbox")
    assert len(entries) == 1


async def test_every_deed_is_in_the_audit_log_under_the_callers_name(
    api: Api, database_url: str, worker: Hands
) -> None:
    dead, waiting = await failed(api.client, worker), await submit(api.client)
    await api.client.post(f"/tasks/{dead}/redrive")
    await cancel(api.client, waiting)
    many = await failed(api.client, worker)
    await api.client.post("/dead-letters/redrive", json={"task_ids": [str(many)]})
    await api.client.post("/queues/mail/pause")
    await api.client.post("/queues/mail/resume")

    log = rows(database_url, "SELECT actor, action, subject FROM taskbell.audit_log ORDER BY id")

    assert log == [
        (ALICE.name, "redrive", str(dead)),
        (ALICE.name, "cancel", str(waiting)),
        (ALICE.name, "redrive", str(many)),
        (ALICE.name, "pause", "mail"),
        (ALICE.name, "resume", "mail"),
    ]


async def test_cancelling_works_with_the_broker_away(api: Api, database_url: str) -> None:
    app, began, reports = Consumer(), asyncio.Event(), Reports()

    @app.handler("noop", lease=3600)
    async def handle(_context: Context, _payload: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    task_id = await submit(api.client)
    async with working(app, database_url, reports, amqp_url="amqp://127.0.0.1:1/"):
        await reports.some(BrokerLost)
        await began.wait()
        told = await cancel(api.client, task_id, wait=30)
        await reports.settled(task_id, status="CANCELLED")

    assert (told.status_code, told.json()["answer"]) == (200, "cancelled")
