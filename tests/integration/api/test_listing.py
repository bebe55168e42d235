"""Lists: complete, in order, each owner's own, and at a cost that does not grow."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.api import ADMIN, BOB, Api
from support.plans import prepared, read
from taskbell.shared.database import conninfo
from taskbell.shared.lifecycle import TaskStatus
from taskbell.shared.statement import Statement
from taskbell.shared.statements import listing

SMALL, LARGE = 2_000, 200_000

# A third of the tasks have no owner, a third are alice's; one in a hundred has the same correlation
# id, three more have some other.
FILL = """
WITH n AS (
    SELECT i, CAST('01900000-0000-7000-8000-' || lpad(to_hex(i), 12, '0') AS uuid) AS id,
           (ARRAY['', 'alice', 'bob'])[i % 3 + 1] AS owner_id
    FROM generate_series(1, {count}) AS i
), t AS (
    INSERT INTO taskbell.task (id, owner_id, type, queue, correlation_id, payload)
    SELECT id, owner_id, 'type ' || i % 7, 'queue ' || i % 5,
           CASE WHEN i % 100 = 1 THEN 'order-17'
                WHEN i % 100 IN (2, 4, 6) THEN 'order ' || i / 1000 END, '{{"order_id": 1}}' FROM n
)
INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at)
SELECT id, 'default', 5, clock_timestamp() FROM n
"""
END = """
WITH ended AS (DELETE FROM taskbell.outbox WHERE task_id = ANY (%(ids)s) RETURNING task_id)
UPDATE taskbell.task SET status = %(status)s, finished_at = clock_timestamp()
WHERE id = ANY (ARRAY(SELECT task_id FROM ended))
"""


def _fill(url: str, count: int) -> None:
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute(FILL.format(count=count).encode())
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE taskbell.task, taskbell.outbox")


async def _pages(api: Api, principal: Any = None, **query: Any) -> list[list[dict[str, Any]]]:
    client = api.client if principal is None else api.as_(principal)
    pages: list[list[dict[str, Any]]] = []
    cursor = None
    while True:
        told = query if cursor is None else {**query, "cursor": cursor}
        answer = await client.get("/tasks", params=told)
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["tasks"])
        cursor = answer.json()["next"]
        if cursor is None:
            return pages


async def _ids(api: Api, principal: Any = None, **query: Any) -> list[str]:
    pages = await _pages(api, principal, **query)
    return [task["task_id"] for page in pages for task in page]


async def test_a_list_is_newest_first_and_each_owners_own(api: Api, database_url: str) -> None:
    _fill(database_url, 300)

    alices = await _ids(api, limit=30)
    bobs = await _ids(api, BOB, limit=7)
    everybodys = await _ids(api, ADMIN, limit=200)

    assert len(alices) == len(bobs) == 100
    assert not set(alices) & set(bobs)
    assert len(set(everybodys)) == 300
    for listed in (alices, bobs, everybodys):
        assert listed == sorted(listed, reverse=True)


async def test_a_page_that_is_just_full_has_no_next(api: Api, database_url: str) -> None:
    _fill(database_url, 150)

    pages = await _pages(api, limit=50)

    assert [len(page) for page in pages] == [50]


async def test_filters_leave_out_what_was_not_asked_for(api: Api, database_url: str) -> None:
    _fill(database_url, 300)

    by_type = await _pages(api, type="type 1", limit=200)
    by_two = await _pages(api, type="type 1", queue="queue 1", limit=200)
    by_correlation = await _pages(api, ADMIN, correlation_id="order-17")
    by_owner = await _pages(api, ADMIN, owner_id="bob", limit=200)
    nobodys = await _pages(api, ADMIN, owner_id="", limit=200)

    assert {task["type"] for task in by_type[0]} == {"type 1"}
    assert {(task["type"], task["queue"]) for task in by_two[0]} == {("type 1", "queue 1")}
    assert len(by_correlation[0]) == 3
    assert {task["owner_id"] for task in by_owner[0]} == {"bob"}
    assert {task["owner_id"] for task in nobodys[0]} == {""}
    assert len(by_owner[0]) == len(nobodys[0]) == 100


async def test_every_status_is_found_by_its_name(api: Api, database_url: str) -> None:
    _fill(database_url, 90)
    ids = await _ids(api)
    with psycopg.connect(conninfo(database_url)) as connection:
        for place, status in enumerate(("COMPLETED", "CANCELLED")):
            connection.execute(END, {"ids": [UUID(ids[place])], "status": status})
        connection.execute(
            "WITH o AS (DELETE FROM taskbell.outbox WHERE task_id = %(id)s RETURNING queue)"
            ", l AS (INSERT INTO taskbell.lease (task_id, expires_at, attempt, queue, worker_id)"
            " SELECT %(id)s, clock_timestamp(), 1, queue, 'w' FROM o)"
            " UPDATE taskbell.task SET status = 'IN_PROGRESS', attempt_count = 1 WHERE id = %(id)s",
            {"id": UUID(ids[2])},
        )
        connection.execute(END, {"ids": [UUID(ids[3])], "status": "FAILED"})
        connection.execute(
            "INSERT INTO taskbell.dead_letter"
            " (task_id, failed_at, attempt_count, owner_id, queue, type)"
            " SELECT id, clock_timestamp(), 1, owner_id, queue, type FROM taskbell.task"
            " WHERE status = 'FAILED'"
        )
        connection.execute(
            "UPDATE taskbell.task SET status = 'RETRYING' WHERE id = %s", [UUID(ids[4])]
        )

    for principal in (None, ADMIN):
        found = {status: await _ids(api, principal, status=status) for status in TaskStatus}
        assert found.pop(TaskStatus.PENDING)[-1] == min(await _ids(api, principal))
        assert found == {
            TaskStatus.COMPLETED: [ids[0]],
            TaskStatus.CANCELLED: [ids[1]],
            TaskStatus.IN_PROGRESS: [ids[2]],
            TaskStatus.FAILED: [ids[3]],
            TaskStatus.RETRYING: [ids[4]],
        }


async def test_a_page_looks_at_a_bounded_number_of_tasks(api: Api, database_url: str) -> None:
    _fill(database_url, 6_000)

    pages = await _pages(api, ADMIN, type="type 3", queue="queue 2", limit=200)
    found = [task for page in pages for task in page]

    assert len(pages) >= 6
    assert len({task["task_id"] for task in found}) == len(found) == 6_000 // 35


async def test_a_page_never_shows_a_task_twice_nor_leaves_one_out_while_others_are_added(
    api: Api, database_url: str
) -> None:
    _fill(database_url, 900)
    before = set(await _ids(api, limit=200))
    reading = asyncio.Event()
    done = asyncio.Event()

    async def add() -> None:
        while not done.is_set():
            answer = await api.client.post("/tasks", json={"type": "noop"})
            assert answer.status_code == 201
            reading.set()

    adding = asyncio.ensure_future(add())
    await reading.wait()
    listed = await _ids(api, limit=10)
    done.set()
    await adding

    assert len(set(listed)) == len(listed)
    assert before <= set(listed)


async def test_a_cursor_of_another_owner_filter_or_hand_is_refused(
    api: Api, database_url: str
) -> None:
    _fill(database_url, 300)
    first = await api.client.get("/tasks", params={"limit": 5, "type": "type 1"})
    cursor = first.json()["next"] or ""

    foreign = await api.as_(BOB).get("/tasks", params={"cursor": cursor, "type": "type 1"})
    unfiltered = await api.client.get("/tasks", params={"cursor": cursor})
    forged = await api.client.get("/tasks", params={"cursor": cursor[::-1], "type": "type 1"})
    longer = await api.client.get("/tasks", params={"cursor": cursor, "type": "type 1", "limit": 9})

    assert [each.status_code for each in (foreign, unfiltered, forged)] == [400, 400, 400]
    assert foreign.json()["type"] == "urn:taskbell:problem:invalid-cursor"
    assert longer.status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        {"status": "pending"}, {"limit": "0"}, {"limit": "201"}, {"limit": "5.0"}, {"limit": "٣"},
        {"type": ""}, {"type": "a\x00"}, {"queue": "ä"}, {"sort": "id"},
    ],
)  # fmt: skip
async def test_a_query_that_means_nothing_is_refused(api: Api, query: dict[str, str]) -> None:
    answer = await api.client.get("/tasks", params=query)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"?{next(iter(query))}"


async def test_only_an_administrator_chooses_an_owner(api: Api) -> None:
    foreign = await api.client.get("/tasks", params={"owner_id": "bob"})
    own = await api.client.get("/tasks", params={"owner_id": "alice"})
    broken = await api.as_(ADMIN).get("/tasks", params={"owner_id": "a\x00"})

    assert [each.status_code for each in (foreign, own, broken)] == [403, 200, 422]


LISTS: dict[str, tuple[Statement, dict[str, Any]]] = {
    "an owner's": (listing.page("owner", frozenset({"owner_id"})), {"owner_id": "alice"}),
    "a small owner's": (listing.page("owner", frozenset({"owner_id"})), {"owner_id": "carol"}),
    "everybody's": (listing.page("task", frozenset[str]()), {}),
    "an owner's rare type": (
        listing.page("owner", frozenset({"owner_id", "type", "status"})),
        {"owner_id": "alice", "type": "none", "status": "PENDING"},
    ),
    "everybody's ended": (listing.page("task", frozenset({"status"})), {"status": "COMPLETED"}),
    "everybody's waiting": (listing.page("outbox", frozenset({"status"})), {"status": "RETRYING"}),
    "by a rare name": (
        listing.page("correlation", frozenset({"correlation_id"})),
        {"correlation_id": "order-18"},
    ),
    "of an owner by name": (
        listing.page("owner's correlation", frozenset({"correlation_id", "owner_id"})),
        {"correlation_id": "order-17", "owner_id": "bob"},
    ),
    "of an owner by a rare name": (
        listing.page("owner's correlation", frozenset({"correlation_id", "owner_id"})),
        {"correlation_id": "order 1", "owner_id": "bob"},
    ),
    "of an owner by no name": (
        listing.page("owner's correlation", frozenset({"correlation_id", "owner_id"})),
        {"correlation_id": "order", "owner_id": "bob"},
    ),
}


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(conninfo(database_url), options="-c jit=off") as opened:
        yield opened


def _read(connection: psycopg.Connection[Any], name: str, mode: str, before: int) -> int:
    statement, given = LISTS[name]
    place = UUID(f"01900000-0000-7000-8000-{before:012x}")
    return read(prepared(connection, statement, mode, before=place, limit=50, **given))


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_a_list_reads_no_more_at_two_hundred_thousand_tasks_than_at_two_thousand(
    connection: psycopg.Connection[Any], database_url: str, mode: str
) -> None:
    _fill(database_url, SMALL)
    small = {name: _read(connection, name, mode, SMALL) for name in LISTS}
    connection.execute("TRUNCATE taskbell.task, taskbell.outbox")
    connection.commit()
    _fill(database_url, LARGE)

    newest = {name: _read(connection, name, mode, LARGE) for name in LISTS}
    deep = {name: _read(connection, name, mode, LARGE // 2) for name in LISTS}

    # An owner's tasks lie among others', and the trees of the indexes are a level higher. Of what
    # waits each task is looked up; while there are few, reading all of them takes less.
    most = {name: 1.6 * blocks + 200 for name, blocks in small.items()}
    most["everybody's waiting"] = 5 * listing.EXAMINED
    most["of an owner by name"] = 2 * listing.EXAMINED  # all 667 and a sort, while that is cheaper
    for name in LISTS:
        assert newest[name] <= most[name], (name, newest, small)
        assert deep[name] <= most[name], (name, deep, small)
