"""The settlement is fenced, and decided alike in SQL and in Python."""

import asyncio
import itertools
from typing import get_args

from integration.consumer.held import WORKER, ended, lend, settled
from support.factories import make_tasks
from support.waiting import PATIENCE
from support.workers import Reports, rows, task_of
from taskbell.consumer.settling import Settler
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.events import StatementFailed
from taskbell.shared.lifecycle import Diagnosis, Verdict, next_status
from taskbell.shared.statements import settlement

DIAGNOSIS = Diagnosis("ValueError", "f" * 16, "bad", "…")


async def test_sql_and_python_decide_alike_for_every_verdict(
    database_url: str, reports: Reports
) -> None:
    verdicts: list[Verdict] = [v for v in get_args(Verdict) if v != "lost"]
    cases = list(itertools.product(verdicts, (1, 2, 3, 4), (False, True)))
    ids = make_tasks(database_url, len(cases), max_attempts=3)
    for task_id, (_, used, cancelled) in zip(ids, cases, strict=True):
        lend(database_url, [task_id], used=used, cancelled=cancelled)

    answers = await settled(
        database_url, reports,
        *(ended(task_id, case[0], diagnosis=DIAGNOSIS) for task_id, case in
          zip(ids, cases, strict=True)),
    )  # fmt: skip

    for task_id, (verdict, used, cancelled) in zip(ids, cases, strict=True):
        status = next_status(verdict, used=used, max_attempts=3, cancel_requested=cancelled)
        refund = verdict in {"release", "snooze"}
        task = task_of(database_url, task_id)
        assert (answers[task_id], task.status) == (status, status), (verdict, used, cancelled)
        assert task.used == used - refund
    assert_whole(database_url)


async def test_the_reaper_decides_as_python_does(database_url: str) -> None:
    cases = list(itertools.product((1, 2, 3), (False, True)))
    ids = make_tasks(database_url, len(cases), max_attempts=3)
    for task_id, (used, cancelled) in zip(ids, cases, strict=True):
        lend(database_url, [task_id], used=used, cancelled=cancelled)
    rows(database_url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")
    connection = DedicatedConnection(Database(database_url), "reap")

    reaped = {row.task_id: row.status for row in await connection.run(settlement.REAP, batch=100)}

    await connection.close()
    assert reaped == {
        task_id: next_status("lost", used=used, max_attempts=3, cancel_requested=cancelled)
        for task_id, (used, cancelled) in zip(ids, cases, strict=True)
    }
    assert_whole(database_url)


def assert_whole(url: str) -> None:
    """I1 and I3 of the design."""
    wrong = rows(
        url,
        "SELECT t.id, t.status FROM taskbell.task t "
        "LEFT JOIN taskbell.outbox o ON o.task_id = t.id "
        "LEFT JOIN taskbell.lease l ON l.task_id = t.id "
        "LEFT JOIN taskbell.dead_letter d ON d.task_id = t.id "
        "WHERE (t.finished_at IS NULL) <> (num_nonnulls(o.task_id, l.task_id) = 1) "
        "OR (t.status = 'FAILED') <> (d.task_id IS NOT NULL)",
    )
    assert wrong == []


async def test_a_settlement_with_another_attempt_or_worker_changes_nothing(
    database_url: str, reports: Reports
) -> None:
    stale, foreign = make_tasks(database_url, 2)
    lend(database_url, [stale, foreign])
    rows(database_url, "UPDATE taskbell.lease SET attempt = 8 WHERE task_id = %s", stale)
    rows(database_url, "UPDATE taskbell.lease SET worker_id = 'x' WHERE task_id = %s", foreign)

    answers = await settled(database_url, reports, ended(stale), ended(foreign, result="1"))

    assert answers == {stale: None, foreign: None}
    assert len(rows(database_url, "SELECT task_id FROM taskbell.lease")) == 2
    assert {task_of(database_url, each).status for each in (stale, foreign)} == {"IN_PROGRESS"}


async def test_a_repeated_settlement_is_told_what_was_committed(
    database_url: str, reports: Reports
) -> None:
    plain, result, retried, failed = make_tasks(database_url, 4)
    lend(database_url, [plain, result, retried, failed])
    group = (
        ended(plain), ended(result, result="1"),
        ended(retried, "retry", diagnosis=DIAGNOSIS), ended(failed, "fail", diagnosis=DIAGNOSIS),
    )  # fmt: skip

    first = await settled(database_url, reports, *group)
    again = await settled(database_url, reports, *group)

    assert first == again == {
        plain: "COMPLETED", result: "COMPLETED", retried: "RETRYING", failed: "FAILED"
    }  # fmt: skip


async def test_a_completion_that_the_reaper_forestalled_is_not_reported_as_the_tasks_end(
    database_url: str, reports: Reports
) -> None:
    (task_id,) = make_tasks(database_url, max_attempts=1)
    lend(database_url, [task_id])
    rows(database_url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")
    connection = DedicatedConnection(Database(database_url), "reap")
    await connection.run(settlement.REAP, batch=100)
    await connection.close()

    assert await settled(database_url, reports, ended(task_id)) == {task_id: None}
    assert task_of(database_url, task_id).status == "FAILED"


async def test_one_row_that_postgres_refuses_never_stops_its_neighbours(
    database_url: str, reports: Reports
) -> None:
    ids = make_tasks(database_url, 20)
    lend(database_url, ids)
    bad_json, bad_text, refused = ids[3], ids[11], ids[17]
    rows(
        database_url,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF NEW.id = '{refused}' AND NEW.status = 'COMPLETED' THEN RAISE 'no'; END IF; "
        "RETURN NEW; END $$",
    )
    rows(
        database_url,
        "CREATE TRIGGER refuse BEFORE UPDATE ON taskbell.task "
        "FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    hostile = {
        bad_json: ended(bad_json, result="{not json"),
        bad_text: ended(bad_text, "retry", diagnosis=Diagnosis("E", "f", "a\x00b", "")),
    }

    answers = await settled(
        database_url, reports, *(hostile.get(task_id) or ended(task_id) for task_id in ids)
    )

    assert {task_id for task_id, answer in answers.items() if answer != "COMPLETED"} == {
        bad_json, bad_text, refused
    }  # fmt: skip
    assert {answers[each] for each in (bad_json, bad_text, refused)} == {"FAILED"}
    assert {task_of(database_url, each).status for each in (bad_json, refused)} == {"FAILED"}
    assert len(reports.of(StatementFailed)) == 3
    assert_whole(database_url)


async def test_a_table_that_cannot_be_written_fails_no_task(
    database_url: str, reports: Reports
) -> None:
    (task_id,) = make_tasks(database_url)
    lend(database_url, [task_id])
    rows(database_url, "ALTER TABLE taskbell.failure RENAME TO hidden")
    answers: list[str | None] = []
    settler = Settler(
        DedicatedConnection(Database(database_url), "settle"), WORKER, reports,
        lambda answered: answers.extend(each.status for each in answered),
    )  # fmt: skip
    settler.add(ended(task_id, result="1"))
    running = asyncio.ensure_future(settler.run())
    await reports.some(StatementFailed)
    rows(database_url, "ALTER TABLE taskbell.hidden RENAME TO failure")
    async with asyncio.timeout(PATIENCE):
        await settler.drained()
    running.cancel()
    await settler.close()

    assert answers == ["COMPLETED"]
