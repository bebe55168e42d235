"""A sealed task is worked on as any other, and nothing of it is kept in the clear."""

import threading
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine

from integration.consumer.kinds import AT_ONCE
from integration.consumer.ledger import WRITE, entries, make_ledger
from support import isolated
from support.factories import make_tasks
from support.sealed import CANARY, OLD, everything, give_data_key, make_sealed, result_of
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context
from taskbell.consumer.reports import IgnoredAfterEffect
from taskbell.producer import TypedTask
from taskbell.shared.sealing import key_id_of

CARD = {"card": CANARY}
SEAL_CONNECTIONS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'taskbell seal'
"""


class Charge(TypedTask, type="charge"):
    """A typed payload."""

    card: str


def charging() -> Consumer:
    """One handler for the loop and one for a thread; both return what they were given."""
    app = Consumer()

    @app.handler(Charge)
    async def charge(_context: Context, task: Charge) -> str:
        return task.card

    @app.handler("count")
    def count(_context: Context, payload: list[str]) -> dict[str, Any]:
        return {"cards": payload, "thread": threading.current_thread().name[:8]}

    return app


@pytest.mark.parametrize("behind_pooler", [False, True])
async def test_a_sealed_payload_reaches_its_handler_and_the_result_is_sealed(
    database_url: str, reports: Reports, *, behind_pooler: bool
) -> None:
    charged = make_sealed(database_url, CARD, type="charge")
    counted = make_sealed(database_url, [CANARY], type="count", owner_id="Ada")
    terms = {"seal_keys": OLD, "behind_pooler": behind_pooler}
    async with working(charging(), database_url, reports, **terms):
        await reports.settled(charged, counted)

    assert result_of(database_url, charged) == CANARY
    assert result_of(database_url, counted) == {"cards": [CANARY], "thread": "taskbell"}
    assert CANARY not in everything(database_url)


async def test_a_sealed_payload_reaches_a_handler_in_a_process_of_its_own(
    database_url: str, reports: Reports
) -> None:
    task_id = make_sealed(database_url, {"numbers": [1, 2]}, type="add")
    async with working(isolated.app, database_url, reports, seal_keys=OLD, slots=1):
        await reports.settled(task_id)

    assert result_of(database_url, task_id)["sum"] == 3


async def test_a_payload_in_the_clear_is_taken_and_its_result_is_sealed(
    database_url: str, reports: Reports
) -> None:
    (task_id,) = make_tasks(database_url, type="charge", payload=CARD)
    async with working(charging(), database_url, reports, seal_keys=OLD):
        await reports.settled(task_id)

    assert result_of(database_url, task_id) == CANARY


def having_effects(url: str) -> Consumer:
    """Handlers whose effects bring the payload as result."""
    app, engine = Consumer(), create_engine(url, poolclass=NullPool)

    @app.handler("session", retry=AT_ONCE)
    async def session(context: Context, payload: object) -> None:
        effect = context.effect()
        async with effect as mine:
            await mine.execute(WRITE, {"entry": "session"})
            effect.result = payload

    @app.handler("connection", retry=AT_ONCE)
    def connection(context: Context, payload: object) -> str:
        effect = context.effect(driver="psycopg")
        with effect as mine:
            mine.execute("INSERT INTO public.ledger (entry) VALUES ('connection')")
            effect.result = payload
        return f"ignored {CANARY}"

    @app.handler("elsewhere", retry=AT_ONCE)
    def elsewhere(context: Context, payload: object) -> None:
        effect = context.effect(engine=engine, key=context.idempotency_key)
        with effect as mine:
            mine.execute(WRITE, {"entry": "elsewhere"})
            effect.result = payload

    return app


@pytest.mark.parametrize("name", ["session", "connection", "elsewhere"])
async def test_a_result_that_an_effect_settles_is_sealed(
    database_url: str, reports: Reports, name: str
) -> None:
    make_ledger(database_url)
    task_id = make_sealed(database_url, CARD, type=name)
    async with working(having_effects(database_url), database_url, reports, seal_keys=OLD):
        await reports.settled(task_id)

    assert result_of(database_url, task_id) == CARD
    assert entries(database_url) == [name]
    assert CANARY not in everything(database_url)
    assert CANARY not in "".join(map(str, reports.of(IgnoredAfterEffect)))


async def test_a_result_that_an_effect_in_another_process_settles_is_sealed(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    task_id = make_sealed(database_url, CARD, type="effect_result")
    async with working(isolated.app, database_url, reports, seal_keys=OLD, slots=1):
        await reports.settled(task_id)

    assert result_of(database_url, task_id) == CARD
    assert entries(database_url) == ["process"]


async def test_a_task_without_result_is_settled_as_it_is_without_sealing(
    database_url: str, reports: Reports
) -> None:
    app, connections = Consumer(), list[object]()

    @app.handler("quiet")
    def quiet(_context: Context, _payload: object) -> None:
        connections.append(rows(database_url, SEAL_CONNECTIONS))

    mine = make_sealed(database_url, CARD, type="quiet")
    (clear,) = make_tasks(database_url, type="quiet")
    async with working(app, database_url, reports, seal_keys=OLD):
        await reports.settled(mine, clear)

    for task_id in (mine, clear):
        task = task_of(database_url, task_id)
        assert (task.result, task.result_sealed, task.result_location) == (None, None, None)
    assert connections == [[], []]  # nothing was asked for: nobody's tasks are the ring's


async def test_an_owners_own_key_seals_what_comes_of_its_tasks(
    database_url: str, reports: Reports
) -> None:
    key_id, seals = await give_data_key(database_url, "Ada")
    hers = make_sealed(database_url, [CANARY], seals=seals, type="count", owner_id="Ada")
    async with working(charging(), database_url, reports, seal_keys=OLD):
        await reports.settled(hers)

    sealed = task_of(database_url, hers).result_sealed
    assert key_id_of(sealed) == key_id
    assert result_of(database_url, hers, seals)["cards"] == [CANARY]
