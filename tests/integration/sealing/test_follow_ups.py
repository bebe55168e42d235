"""What a handler enqueues through its context is sealed as its own task is."""

import json
from base64 import b64encode

import pytest

from integration.consumer.kinds import AT_ONCE
from support import isolated
from support.factories import make_tasks
from support.keyrings import seals_of
from support.sealed import CANARY, OLD, everything, give_data_key, make_sealed, result_of
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context
from taskbell.shared.sealing import Kind, key_id_of

CARD = {"card": CANARY}


def following() -> Consumer:
    """Handlers that hand their payload on."""
    app = Consumer()

    @app.handler("session", retry=AT_ONCE)
    async def session(context: Context, payload: object) -> None:
        async with context.effect() as mine:
            await context.enqueue(mine, "next", payload)

    @app.handler("connection", retry=AT_ONCE)
    def connection(context: Context, payload: object) -> None:
        with context.effect(driver="psycopg") as mine:
            context.enqueue(mine, "next", payload)

    return app


@pytest.mark.parametrize("name", ["session", "connection", "follow_up"])
@pytest.mark.parametrize("owner_id", ["", "Ada", "Bob"])
async def test_a_follow_up_is_sealed_by_its_owners_key(
    database_url: str, reports: Reports, name: str, owner_id: str
) -> None:
    key_id, seals = "k1", seals_of("k1")
    if owner_id == "Ada":
        key_id, seals = await give_data_key(database_url, "Ada")
    app = isolated.app if name == "follow_up" else following()
    task_id = make_sealed(database_url, CARD, seals=seals, type=name, owner_id=owner_id)
    async with working(app, database_url, reports, seal_keys=OLD, slots=1):
        await reports.settled(task_id)

    (follow_up,) = rows(database_url, "SELECT * FROM taskbell.task WHERE type = 'next'")
    assert (follow_up.owner_id, follow_up.payload) == (owner_id, None)
    assert key_id_of(follow_up.payload_sealed) == key_id
    opened = seals.open(Kind.PAYLOAD, follow_up.id, owner_id, follow_up.payload_sealed)
    assert json.loads(opened) == CARD
    assert CANARY not in everything(database_url)


async def test_without_sealing_a_follow_up_is_in_the_clear(
    database_url: str, reports: Reports
) -> None:
    (task_id,) = make_tasks(database_url, type="follow_up", payload=CARD)
    async with working(isolated.app, database_url, reports, slots=1):
        await reports.settled(task_id)

    (follow_up,) = rows(database_url, "SELECT id FROM taskbell.task WHERE type = 'next'")
    assert task_of(database_url, follow_up.id).payload == CARD


async def test_no_key_that_opens_another_task_leaves_the_worker(
    database_url: str, reports: Reports
) -> None:
    _, seals = await give_data_key(database_url, "Ada")
    other = make_sealed(database_url, CARD, seals=seals, type="noop", owner_id="Ada", due=False)
    sealed = b64encode(task_of(database_url, other).payload_sealed).decode()
    asked = {"task_id": str(other), "sealed": sealed}
    task_id = make_sealed(database_url, asked, seals=seals, type="prying", owner_id="Ada")
    async with working(isolated.app, database_url, reports, seal_keys=OLD, slots=1):
        await reports.settled(task_id)

    assert result_of(database_url, task_id, seals) == {"opened": False, "refused": 3}


async def test_a_follow_up_whose_id_is_taken_stays_as_it_is(
    database_url: str, reports: Reports
) -> None:
    other = make_sealed(database_url, CARD, type="next", due=False)
    before = task_of(database_url, other)
    again = {"task_id": str(other)}
    task_id = make_sealed(database_url, again, type="follow_up_again")
    async with working(isolated.app, database_url, reports, seal_keys=OLD, slots=1):
        await reports.settled(task_id)

    assert task_of(database_url, task_id).status == "COMPLETED"
    assert task_of(database_url, other) == before
