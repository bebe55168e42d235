"""How tasks run side by side: within slots, in order where order was asked for, apart."""

import asyncio
import threading
from collections import Counter
from contextvars import ContextVar
from statistics import median
from time import monotonic

import psycopg

from integration.consumer.applications import gated
from support.factories import make_tasks
from support.waiting import wait_until
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context
from taskbell.producer import NewTask, Producer
from taskbell.shared.database import conninfo

OWN: ContextVar[str] = ContextVar("OWN", default="nobody's")


async def test_slots_are_never_exceeded_by_either_kind_of_handler(
    database_url: str, reports: Reports
) -> None:
    app, lock = Consumer(), threading.Lock()
    running = Counter[str]()
    most = 0

    def note(change: int) -> None:
        nonlocal most
        with lock:
            running["all"] += change
            most = max(most, running["all"])

    @app.handler("loop")
    async def on_loop(_context: Context, _payload: object) -> None:
        note(1)
        await asyncio.sleep(0.01)
        note(-1)

    @app.handler("thread")
    def in_thread(_context: Context, _payload: object) -> None:
        note(1)
        threading.Event().wait(0.01)
        note(-1)

    ids = make_tasks(database_url, 40, type="loop") + make_tasks(database_url, 40, type="thread")
    async with working(app, database_url, reports, slots=4):
        await reports.settled(*ids)

    assert most == 4


async def test_no_task_sees_the_context_variables_of_another(
    database_url: str, reports: Reports
) -> None:
    app, seen = Consumer(), list[str]()
    OWN.set("the test's")

    @app.handler("loop")
    async def on_loop(context: Context, _payload: object) -> None:
        seen.append(OWN.get())
        OWN.set(str(context.task_id))
        await asyncio.sleep(0)
        assert OWN.get() == str(context.task_id)

    @app.handler("thread")
    def in_thread(context: Context, _payload: object) -> None:
        seen.append(OWN.get())
        OWN.set(str(context.task_id))

    ids = make_tasks(database_url, 50, type="loop") + make_tasks(database_url, 50, type="thread")
    async with working(app, database_url, reports, slots=5):
        await reports.settled(*ids)

    assert set(seen) == {"nobody's"}


async def test_a_partition_runs_one_at_a_time_in_the_order_of_creation_over_two_workers(
    database_url: str, reports: Reports
) -> None:
    app, history = Consumer(), list[tuple[str, str]]()

    @app.handler("t")
    async def handle(context: Context, _payload: object) -> None:
        history.append(("begins", str(context.task_id)))
        await asyncio.sleep(0.005)
        history.append(("ends", str(context.task_id)))

    ids = [make_tasks(database_url, type="t", partition_key="k")[0] for _ in range(10)]
    theirs = Reports()
    async with working(app, database_url, reports), working(app, database_url, theirs):
        await asyncio.to_thread(
            wait_until,
            "all are completed",
            lambda: len(rows(database_url, "SELECT 1 AS n FROM taskbell.task "
                                           "WHERE status = 'COMPLETED'")) == 10,
        )  # fmt: skip

    assert history == [(what, str(task_id)) for task_id in ids for what in ("begins", "ends")]


async def test_a_settled_head_hands_over_to_the_next_in_the_same_commit(
    database_url: str, reports: Reports
) -> None:
    app, gate = gated()

    first, second = make_tasks(database_url, 2, type="t", partition_key="k")
    async with working(app, database_url, reports, slots=1) as worker:
        await gate.begun.wait()
        worker.shutdown.ask()
        gate.go_on.set()
        assert await worker.ended()

    assert task_of(database_url, first).status == "COMPLETED"
    (entry,) = rows(database_url, "SELECT task_id, parked FROM taskbell.outbox")
    assert (entry.task_id, entry.parked) == (second, False)


async def test_without_a_broker_the_doorbell_wakes_an_idle_worker(
    database_url: str, reports: Reports
) -> None:
    app, begun = Consumer(), asyncio.Queue[float]()

    @app.handler("t")
    async def handle(_context: Context, _payload: object) -> None:
        begun.put_nowait(monotonic())

    def asleep() -> bool:
        return bool(rows(
            database_url,
            "SELECT 1 AS n FROM taskbell.bell WHERE awake_until <= clock_timestamp() "
            "AND listen_until > clock_timestamp()",
        ))  # fmt: skip

    delays: list[float] = []
    async with working(app, database_url, reports):
        for _ in range(5):
            await asyncio.to_thread(wait_until, "it sleeps", asleep)
            with psycopg.connect(conninfo(database_url)) as connection:
                Producer().enqueue(connection, NewTask("t", {}))
                connection.commit()
            committed = monotonic()
            async with asyncio.timeout(60):
                delays.append(await begun.get() - committed)

    assert median(delays) < 0.3  # a safety pass alone comes once a second


async def test_with_a_pooler_in_between_nothing_rests_on_session_state(
    database_url: str, reports: Reports
) -> None:
    app = Consumer()

    @app.handler("t", lease=1)
    async def handle(_context: Context, _payload: object) -> None:
        await asyncio.sleep(0.8)

    ids = make_tasks(database_url, 3, type="t")
    ids += make_tasks(database_url, 1, type="t", partition_key="k")
    async with working(app, database_url, reports, behind_pooler=True):
        await reports.settled(*ids)
        listening = rows(
            database_url,
            "SELECT 1 AS n FROM pg_stat_activity WHERE application_name LIKE 'taskbell %%' "
            "AND datname = current_database() AND query LIKE '%%LISTEN%%'",
        )

    assert listening == []


async def test_no_queue_of_several_is_forgotten(database_url: str, reports: Reports) -> None:
    app = Consumer()
    for name in ("a", "b", "c"):

        @app.handler(name, queue=name)
        async def handle(_context: Context, _payload: object) -> None:
            return

    ids = [each for name in "abc" for each in make_tasks(database_url, 5, type=name, queue=name)]
    async with working(app, database_url, reports, slots=2):
        await reports.settled(*ids)
