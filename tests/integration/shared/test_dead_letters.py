"""Dead letters are read by page, filter and cause; redriven and discarded once each."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from integration.shared.sleeper import woken
from support.factories import make_tasks
from support.hands import Hands, session
from support.workers import rows, task_of
from taskbell.shared import dead_letters
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.dead_letters import Filters, Place
from taskbell.shared.statement import Statement
from taskbell.shared.statements import dead_letter, settlement

LOG = "SELECT actor, action, subject FROM taskbell.audit_log ORDER BY id"


async def make_letters(url: str, worker: Hands, *fingerprints: str, queue: str = "q") -> list[UUID]:
    ids = make_tasks(url, len(fingerprints), queue=queue)
    for task_id, fingerprint in zip(ids, fingerprints, strict=True):
        await worker.fail(task_id, fingerprint=fingerprint, error=f"of {fingerprint}")
    return ids


async def test_pages_go_from_the_newest_to_the_oldest_and_meet_each_letter_once(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    ids = await make_letters(database_url, worker, *"aabab")
    # Equal instants: only the id tells them apart.
    rows(database_url, "UPDATE taskbell.dead_letter SET failed_at = '2026-01-01 00:00Z'")

    seen: list[UUID] = []
    after: Place | None = None
    while page := await dead_letters.list_many(connection, after=after, limit=2):
        seen += [letter.task_id for letter in page]
        after = Place.read(str(page[-1].place))

    assert seen == sorted(ids, reverse=True)


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        (Filters(queue="q"), 3),
        (Filters(queue="q", fingerprint="a"), 2),
        (Filters(fingerprint="a"), 3),
        (Filters(type="noop", owner_id=""), 4),
        (Filters(owner_id="somebody"), 0),
    ],
)
async def test_filters_narrow_list_count_and_causes_alike(
    database_url: str, worker: Hands, connection: DedicatedConnection, only: Filters, wanted: int
) -> None:
    await make_letters(database_url, worker, *"aab")
    await make_letters(database_url, worker, "a", queue="other")

    listed = await dead_letters.list_many(connection, only)
    causes = await dead_letters.causes(connection, only)

    assert len(listed) == await dead_letters.count(connection, only) == wanted
    assert sum(cause.dead_letters for cause in causes) == wanted


async def test_causes_name_how_often_since_when_and_the_newest_example(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    first, second, third = await make_letters(database_url, worker, *"aba")

    frequent, rare = await dead_letters.causes(connection)

    assert (frequent.fingerprint, frequent.dead_letters, frequent.example) == ("a", 2, third)
    assert (rare.fingerprint, rare.dead_letters, rare.example) == ("b", 1, second)
    assert (frequent.error_class, frequent.last_error) == ("ValueError", "of a")
    oldest = await dead_letters.show(connection, first)
    assert oldest is not None
    assert frequent.first_failed_at == oldest.letter.failed_at < frequent.last_failed_at


async def test_a_letter_shows_every_failed_attempt_also_those_before_it_was_redriven(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    (task_id,) = make_tasks(database_url)
    (lease,) = await worker.claim()
    await worker.settle(task_id, lease.attempt, "retry", error="first")
    await worker.fail(task_id, error="second")
    await dead_letters.redrive_many(connection, [task_id], actor="me")
    await worker.fail(task_id, error="third")

    found = await dead_letters.show(connection, task_id)

    assert found is not None
    assert found.letter.attempt_count == 3
    assert [(each.attempt, each.outcome, each.error) for each in found.history] == [
        (1, "retry", "first"), (2, "fail", "second"), (3, "fail", "third"),
    ]  # fmt: skip
    assert await dead_letters.show(connection, uuid4()) is None


async def test_a_redriven_task_has_all_its_tries_again_and_no_attempt_twice(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    (task_id,) = make_tasks(database_url, max_attempts=2)
    for _ in range(2):
        (lease,) = await worker.claim()
        await worker.settle(task_id, lease.attempt, "retry")
    assert task_of(database_url, task_id).status == "FAILED"

    redriven = await dead_letters.redrive_many(connection, [task_id, uuid4()], actor="me")

    task = task_of(database_url, task_id)
    assert redriven == [task_id]
    assert (task.status, task.attempt_count, task.used, task.finished_at) == ("PENDING", 2, 0, None)
    attempts: list[int] = []
    for _ in range(2):
        (lease,) = await worker.claim()
        attempts.append(lease.attempt)
        await worker.settle(task_id, lease.attempt, "retry")
    assert attempts == [3, 4]
    assert task_of(database_url, task_id).status == "FAILED"


@pytest.mark.parametrize(
    "first", [dead_letter.REDRIVE, dead_letter.DISCARD], ids=["redrive", "discard"]
)
@pytest.mark.parametrize(
    "second", [dead_letter.REDRIVE, dead_letter.DISCARD], ids=["redrive", "discard"]
)
@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_of_two_at_the_same_moment_one_wins(
    database_url: str, worker: Hands, first: Statement, second: Statement,
    ends: str,
) -> None:  # fmt: skip
    (task_id,) = await make_letters(database_url, worker, "a")
    async with session(database_url) as holder, session(database_url) as waiter:
        held = await holder.run(first, **asked(first, [task_id], "holder"))
        waiting = asyncio.create_task(waiter.run(second, **asked(second, [task_id], "waiter")))
        await waiter.is_waiting()
        await (holder.commit() if ends == "commit" else holder.rollback())
        waited = await waiting
        await waiter.commit()

    assert [row.task_id for row in held] == [task_id]
    assert [row.task_id for row in waited] == ([] if ends == "commit" else [task_id])
    winner = "holder" if ends == "commit" else "waiter"
    assert [row.actor for row in rows(database_url, LOG)] == [winner]
    entries = rows(database_url, "SELECT task_id FROM taskbell.outbox")
    redriven = (first if ends == "commit" else second) is dead_letter.REDRIVE
    assert len(entries) == redriven


def asked(statement: Statement, ids: Sequence[UUID], actor: str) -> dict[str, object]:
    given: dict[str, object] = {"task_ids": list(ids), "actor": actor}
    return given | ({"delays": [0.0] * len(ids)} if "delays" in statement.parameters else {})


@pytest.mark.parametrize("claimed", [False, True], ids=["it waits", "it runs again"])
async def test_a_late_holder_changes_nothing_of_a_redriven_task(
    database_url: str, worker: Hands, connection: DedicatedConnection, *, claimed: bool
) -> None:
    (task_id,) = make_tasks(database_url, max_attempts=1)
    (lease,) = await worker.claim()
    rows(database_url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")
    await worker.connection.run(settlement.REAP, batch=10)
    await dead_letters.redrive_many(connection, [task_id], actor="me")
    if claimed:
        assert len(await worker.claim()) == 1
    before = task_of(database_url, task_id)

    answers = [await worker.complete([lease]), await worker.settle(task_id, lease.attempt, "fail")]

    assert answers == [[], "lost"]
    assert task_of(database_url, task_id) == before


async def test_a_rate_spreads_the_due_times_over_all_batches(
    database_url: str,
    worker: Hands,
    connection: DedicatedConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letters, "_BATCH", 7)
    ids = await make_letters(database_url, worker, *"a" * 20, "b")

    redriven = await dead_letters.redrive_all(
        connection, Filters(fingerprint="a"), actor="me", rate=4.0
    )

    due = [
        row.publish_at
        for row in rows(database_url, "SELECT publish_at FROM taskbell.outbox ORDER BY task_id")
    ]
    assert redriven == len(due) == 20
    assert min((later - sooner).total_seconds() for sooner, later in pairwise(due)) >= 0.25
    for n, start in enumerate(due):
        assert sum(0 <= (other - start).total_seconds() < 1.0 for other in due) <= 4, n
    assert [letter.task_id for letter in await dead_letters.list_many(connection)] == ids[20:]


async def test_redriving_all_ends_though_what_it_redrives_dies_again(
    database_url: str,
    worker: Hands,
    connection: DedicatedConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letters, "_BATCH", 2)
    await make_letters(database_url, worker, *"aaaa")
    redrive_many = dead_letters.redrive_many

    async def redrive_and_fail(
        connection: DedicatedConnection, task_ids: Sequence[UUID], **rest: object
    ) -> list[UUID]:
        done = await redrive_many(connection, task_ids, actor="me")
        assert rest["actor"] == "me"
        for task_id in done:
            await worker.fail(task_id)
        return done

    monkeypatch.setattr(dead_letters, "redrive_many", redrive_and_fail)

    assert await dead_letters.redrive_all(connection, Filters(), actor="me") == 4
    assert await dead_letters.count(connection) == 4


async def test_a_discarded_task_is_gone_and_its_idempotency_key_is_free(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    (discarded, other) = await make_letters(database_url, worker, *"ab")
    rows(
        database_url,
        "INSERT INTO taskbell.idempotency (owner_id, key_hash, task_id, request_hash) "
        "SELECT owner_id, decode(md5(id::text), 'hex'), id, '' FROM taskbell.task",
    )
    rows(database_url, "UPDATE taskbell.task SET idempotency_hash = decode(md5(id::text), 'hex')")
    (waiting,) = make_tasks(database_url)

    done = await dead_letters.discard_many(connection, [discarded, waiting], actor="me")

    assert done == [discarded]
    for table in ("task WHERE id <> %s", "idempotency WHERE task_id <> %s",
                  "failure WHERE task_id <> %s", "dead_letter WHERE task_id <> %s"):  # fmt: skip
        name = "id" if table.startswith("task ") else "task_id"
        (left,) = rows(database_url, f"SELECT {name} FROM taskbell.{table}", waiting)
        assert left == (other,), table
    assert rows(database_url, LOG) == [("me", "discard", str(discarded))]


async def test_redriving_rings_whoever_sleeps(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    (task_id,) = await make_letters(database_url, worker, "a")
    with woken(database_url):
        await dead_letters.redrive_many(connection, [task_id], actor="me")
