"""How our own connections reach Postgres: by whatever the URL says, and none is ever lost."""

import asyncio
import gc
import types
from collections.abc import Generator
from itertools import count
from typing import Any

import psycopg
import pytest

from support.waiting import wait_until
from support.workers import rows
from taskbell.shared.database import Database, DedicatedConnection, conninfo
from taskbell.shared.statement import Statement

SESSION = Statement(
    "SELECT current_setting('jit') AS jit, current_setting('geqo') AS geqo,"
    " current_setting('default_transaction_isolation') AS isolation,"
    " current_setting('application_name') AS name"
)
OPEN = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'taskbell test'"


@types.coroutine
def cancelled_at(step: int, database: Database, *, as_it_comes: bool) -> Generator[Any, Any, bool]:
    """Connect and be cancelled while waiting for the n-th time, or just as that wait ends.

    Tells whether there was such a wait.
    """
    connecting = database.connect("test")
    running = asyncio.current_task()
    assert running is not None

    def cancel(_: object) -> None:
        running.cancel()

    steps = connecting.__await__()
    for number in count():
        try:
            awaited = next(steps)
        except StopIteration as connected:
            connected.value.pgconn.finish()
            return False
        if number == step and as_it_comes and awaited is not None:
            awaited.add_done_callback(cancel)
        elif number == step:
            running.cancel()
        try:
            yield awaited
        except asyncio.CancelledError as error:
            with pytest.raises(asyncio.CancelledError):
                steps.throw(error)
            running.uncancel()
            return True
    raise AssertionError("unreachable")


@pytest.mark.parametrize("as_it_comes", [False, True])
async def test_whoever_is_cancelled_while_connecting_leaves_no_connection(
    database_url: str, *, as_it_comes: bool
) -> None:
    database = Database(database_url)

    step = 0
    while await cancelled_at(step, database, as_it_comes=as_it_comes):
        step += 1

    assert step > 0
    await asyncio.to_thread(wait_until, "all connections end", lambda: not rows(database_url, OPEN))
    gc.collect()  # a connection that nobody closed would warn, and warnings are errors


async def test_the_parameters_of_the_url_are_kept_and_what_we_rely_on_is_ours(
    database_url: str,
) -> None:
    options = "-c%20geqo%3Doff%20-c%20default_transaction_isolation%3Dserializable"
    given = f"{database_url}?options={options}&application_name=mine&connect_timeout=7"
    connection = DedicatedConnection(Database(given), "test")

    (found,) = await connection.run(SESSION)

    assert (found.jit, found.geqo, found.isolation, found.name) == (
        *("off", "off", "read committed", "mine"),
    )
    assert (await connection.opened()).info.get_parameters()["connect_timeout"] == "7"
    await connection.close()


@pytest.mark.parametrize("url", ["hunter2", "postgresql://app:p%ss@host/db"])
async def test_a_url_that_can_never_work_is_not_a_database_that_is_away(url: str) -> None:
    with pytest.raises(ValueError, match="not a URL"):
        await DedicatedConnection(Database(url), "test").opened()


async def test_a_vacuum_that_is_cancelled_leaves_its_connection(database_url: str) -> None:
    connection = DedicatedConnection(Database(database_url), "test")
    with psycopg.connect(conninfo(database_url)) as blocker:
        blocker.execute("LOCK TABLE taskbell.outbox IN SHARE UPDATE EXCLUSIVE MODE")
        waiting = asyncio.ensure_future(connection.vacuum(Statement("VACUUM taskbell.outbox")))
        blocked = OPEN + " AND wait_event_type = 'Lock'"
        await asyncio.to_thread(wait_until, "the vacuum waits", lambda: rows(database_url, blocked))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    (found,) = await connection.run(SESSION)

    assert found.name == "taskbell test"
    await connection.close()
