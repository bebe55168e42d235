"""Payloads and results that are too large for a row, as a worker meets them."""

import asyncio
import json
from uuid import UUID

import pytest

from integration.consumer.ledger import WRITE, make_ledger, take_away
from support import isolated
from support.factories import make_tasks
from support.keyrings import seals_of
from support.sealed import OLD, make_due, seal_of
from support.shelf import INLINE, Shelf
from support.waiting import PATIENCE
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.consumer.contents import StorageFound, StorageLost
from taskbell.consumer.settings import ConsumerSettings
from taskbell.shared.events import LeaseLost, TaskFailed
from taskbell.shared.limits import RESULT_BYTES
from taskbell.shared.sealing import Kind
from taskbell.shared.storage import Location

LARGE = {"text": "x" * INLINE}
HUGE = {"text": "é" * RESULT_BYTES}


@pytest.fixture
async def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """The storage of every worker of the test."""
    ours = Shelf()
    monkeypatch.setattr(ConsumerSettings, "storage", ours)
    return ours


def echoing(runs: list[UUID], lease: float = 30) -> Consumer:
    """Handlers that return their payload: on the loop, in a thread, after an effect."""
    app = Consumer()

    @app.handler("echo", retry=Fixed(0))
    async def echo(context: Context, payload: object) -> object:
        runs.append(context.task_id)
        return payload

    @app.handler("thread", retry=Fixed(0))
    def thread(context: Context, payload: object) -> object:
        runs.append(context.task_id)
        return payload

    @app.handler("effect")
    async def effect(context: Context, payload: object) -> None:
        mine = context.effect()
        async with mine as session:
            await session.execute(WRITE, {"entry": "once"})
            mine.result = payload

    @app.handler("huge", lease=lease)
    def huge(context: Context, _payload: object) -> object:
        runs.append(context.task_id)
        return HUGE

    @app.handler("timely", timeout=3, retry=Fixed(0))
    async def timely(context: Context, payload: object) -> object:
        runs.append(context.task_id)
        return payload

    return app


async def stored(url: str, shelf: Shelf, body: bytes, *, type: str = "echo") -> UUID:  # noqa: A002
    """A task that waits, whose payload is this object."""
    (task_id,) = make_tasks(url, delay=3600, type=type)
    location = await shelf.put("payload", task_id, "", body)
    rows(
        url, "UPDATE taskbell.task SET payload = NULL, payload_location = %s WHERE id = %s",
        location, task_id,
    )  # fmt: skip
    make_due(url, task_id)
    return task_id


def object_of(url: str, shelf: Shelf, task_id: UUID) -> bytes:
    """The object that holds a task's result."""
    task = task_of(url, task_id)
    assert (task.status, task.result, task.result_sealed) == ("COMPLETED", None, None)
    return shelf.objects[Location.read(task.result_location).path]


@pytest.mark.parametrize("name", ["echo", "thread", "add_async"])
@pytest.mark.parametrize("keys", [None, OLD], ids=["clear", "sealed"])
async def test_a_stored_payload_reaches_its_handler_and_a_large_result_is_stored(
    database_url: str, reports: Reports, shelf: Shelf, name: str, keys: str | None
) -> None:
    payload = [1] * INLINE if name == "add_async" else LARGE
    app = isolated.app if name == "add_async" else echoing([])
    (task_id,) = make_tasks(database_url, delay=3600, type=name)
    body = json.dumps(payload).encode()
    if keys:
        body = seal_of(seals_of("k1"), task_id).seal(Kind.PAYLOAD, body)
    location = await shelf.put("payload", task_id, "", body)
    rows(
        database_url,
        "UPDATE taskbell.task SET payload = NULL, payload_location = %s WHERE id = %s",
        location, task_id,
    )  # fmt: skip
    make_due(database_url, task_id)

    async with working(app, database_url, reports, seal_keys=keys, slots=1):
        await reports.settled(task_id)

    if name == "add_async":
        return  # its result is small
    result = object_of(database_url, shelf, task_id)
    if keys:
        assert b"xxx" not in result
        result = seals_of("k1").open(Kind.RESULT, task_id, "", result)
    assert json.loads(result) == LARGE


async def test_small_results_and_those_of_effects_stay_in_the_row(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    make_ledger(database_url)
    (small,) = make_tasks(database_url, type="echo", payload="x" * (INLINE - 2))
    (effect,) = make_tasks(database_url, type="effect", payload=LARGE)
    async with working(echoing([]), database_url, reports):
        await reports.settled(small, effect)

    assert task_of(database_url, small).result == "x" * (INLINE - 2)
    assert task_of(database_url, effect).result == LARGE
    assert shelf.objects == {}


async def test_a_result_is_measured_in_bytes(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    (task_id,) = make_tasks(database_url, type="echo", payload="é" * (INLINE // 2))
    async with working(echoing([]), database_url, reports):
        await reports.settled(task_id)

    assert json.loads(object_of(database_url, shelf, task_id)) == "é" * (INLINE // 2)


async def test_an_object_that_is_gone_or_was_changed_makes_a_dead_letter(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    runs = list[UUID]()
    bodies = (b"{}", b"[]", b"not json", b"[" * 100_000, b"\xff")
    gone, changed, *unreadable = [await stored(database_url, shelf, each) for each in bodies]
    for path in list(shelf.objects):
        if gone.hex in path:
            del shelf.objects[path]
        elif changed.hex in path:
            shelf.objects[path] = b"{}"
    async with working(echoing(runs), database_url, reports):
        await reports.settled(gone, changed, *unreadable, status="FAILED")

    assert runs == []
    assert {each.error_class for each in reports.of(TaskFailed)} == {"taskbell.UnreadablePayload"}
    assert len(reports.of(TaskFailed)) == len(bodies)


async def test_a_payload_waits_for_a_storage_that_is_away_at_no_cost_of_a_try(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    task_id = await stored(database_url, shelf, b"{}")
    shelf.away = True
    async with working(echoing([]), database_url, reports):
        await reports.some(StorageLost)
        await reports.settled(task_id, status="PENDING")
        shelf.away = False
        await reports.settled(task_id)

    assert task_of(database_url, task_id).used == 1
    assert len(reports.of(StorageLost)) == len(reports.of(StorageFound)) == 1
    assert reports.of(TaskFailed) == []


async def test_while_the_storage_is_away_the_row_takes_what_it_can_hold(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    shelf.away = True
    (task_id,) = make_tasks(database_url, type="echo", payload=LARGE)
    async with working(echoing([]), database_url, reports):
        await reports.settled(task_id)

    assert task_of(database_url, task_id).result == LARGE


async def test_a_huge_result_waits_for_the_storage_and_its_handler_runs_once(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    runs = list[UUID]()
    shelf.away = True
    (task_id,) = make_tasks(database_url, type="huge")
    async with working(echoing(runs), database_url, reports):
        async with asyncio.timeout(PATIENCE):
            await shelf.refused.wait()
        shelf.away = False
        await reports.settled(task_id)

    assert json.loads(object_of(database_url, shelf, task_id)) == HUGE
    assert runs == [task_id]


async def test_a_storage_that_goes_wrong_costs_tries_and_not_the_worker(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    fetched = await stored(database_url, shelf, b"{}")
    (kept,) = make_tasks(database_url, type="echo", payload=LARGE)
    (untouched,) = make_tasks(database_url, type="echo")
    shelf.broken = True
    async with working(echoing([]), database_url, reports):
        await reports.settled(fetched, kept, status="FAILED")
        await reports.settled(untouched)

    assert {each.error_class for each in reports.of(TaskFailed)} == {"ZeroDivisionError"}


async def test_a_huge_result_is_refused_without_a_storage(
    database_url: str, reports: Reports
) -> None:
    (task_id,) = make_tasks(database_url, type="huge")
    async with working(echoing([]), database_url, reports):
        await reports.settled(task_id, status="FAILED")

    assert [each.error_class for each in reports.of(TaskFailed)] == ["taskbell.UnstorableResult"]


async def test_a_worker_that_stops_while_a_result_cannot_be_stored_gives_the_task_back(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    shelf.away = True
    (task_id,) = make_tasks(database_url, type="huge")
    async with working(echoing([]), database_url, reports, grace=0) as worker:
        async with asyncio.timeout(PATIENCE):
            await shelf.refused.wait()
        assert await worker.stopped()

    task = task_of(database_url, task_id)
    assert (task.status, task.used) == ("PENDING", 0)


async def test_a_result_is_not_stored_once_the_lease_is_lost(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    shelf.away = True
    (task_id,) = make_tasks(database_url, type="huge")
    async with working(echoing([], lease=3), database_url, reports):
        async with asyncio.timeout(PATIENCE):
            await shelf.refused.wait()
        take_away(database_url, task_id)
        await reports.some(LeaseLost)
        shelf.away = False

    assert shelf.objects == {}
    assert task_of(database_url, task_id).status == "IN_PROGRESS"


async def test_an_upload_does_not_count_against_the_handlers_time(
    database_url: str, reports: Reports, shelf: Shelf
) -> None:
    runs = list[UUID]()
    (task_id,) = make_tasks(database_url, type="timely", payload=LARGE)
    shelf.seconds = 5  # the handler had 3, and would have been interrupted
    async with working(echoing(runs), database_url, reports):
        await reports.settled(task_id)

    assert runs == [task_id]
    assert json.loads(object_of(database_url, shelf, task_id)) == LARGE
    assert reports.of(TaskFailed) == []
