"""How long a listener may sleep: until something is due, and a second at most."""

from typing import cast

from support.factories import make_tasks
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.limits import LEVELS
from taskbell.shared.statements import outbox

QUEUES = ["default", "mail"]


async def next_due(connection: DedicatedConnection) -> float | None:
    rows = await connection.run(outbox.NEXT_DUE, queues=QUEUES, levels=list(LEVELS))
    return cast("float | None", rows[0].seconds)


async def test_nothing_that_waits_ends_no_sleep(connection: DedicatedConnection) -> None:
    assert await next_due(connection) is None


async def test_what_is_long_due_ends_no_sleep(
    connection: DedicatedConnection, database_url: str
) -> None:
    make_tasks(database_url, delay=-60)

    assert await next_due(connection) is None


async def test_the_next_entry_of_any_queue_and_priority_ends_it(
    connection: DedicatedConnection, database_url: str
) -> None:
    make_tasks(database_url, delay=3600, priority=9)
    make_tasks(database_url, delay=1800, priority=0, queue="mail")
    make_tasks(database_url, delay=60, queue="elsewhere")

    seconds = await next_due(connection)

    assert seconds is not None
    assert 1700 < seconds <= 1800
