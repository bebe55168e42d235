"""Effects through PgBouncer in transaction mode, where a session's state is anybody's."""

from uuid import UUID

from sqlalchemy.engine import make_url

from integration.consumer.kinds import (
    handle_by,
    in_blocking_connection,
    in_blocking_session,
    in_connection,
    in_session,
)
from integration.consumer.ledger import entries, make_ledger, take_away
from services import Pooler
from support.factories import make_tasks
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context
from taskbell.shared.events import LeaseLost, TaskFailed

KINDS = (in_session, in_blocking_session, in_connection, in_blocking_connection)
TOGETHER = """
SELECT count(*) AS lines FROM public.ledger l
JOIN taskbell.task t ON t.xmin::text = l.xmin::text WHERE t.status = 'COMPLETED'
"""


async def test_effects_through_a_pooler_commit_with_their_settlement_and_not_without_the_lease(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    app, kept, losing = Consumer(), list[UUID](), set[UUID]()

    def lose(context: Context) -> None:
        if context.task_id in losing:
            take_away(database_url, context.task_id)

    for kind in KINDS:
        # No beat is due before the settlement, which therefore is what notices.
        handle_by(app, kind, lose, task_type=kind.__name__, lease=60)
        kept += make_tasks(database_url, type=kind.__name__)
        losing.update(make_tasks(database_url, type=kind.__name__))

    with Pooler(database_url) as pooler:
        pooled = pooler.url_of(make_url(database_url).database or "")
        async with working(app, pooled, reports, behind_pooler=True):
            await reports.settled(*kept)
            lost = await reports.some(LeaseLost, count=len(losing))
        (left,) = rows(pooled, "SHOW idle_in_transaction_session_timeout")

    assert sorted(entries(database_url)) == [
        "async connection", "async session", "connection", "session"
    ]  # fmt: skip
    assert rows(database_url, TOGETHER)[0].lines == len(KINDS)
    assert {each.task_id for each in lost} == losing
    assert {each.noticed_by for each in lost} == {"effect"}
    assert {task_of(database_url, each).status for each in losing} == {"IN_PROGRESS"}
    assert reports.of(TaskFailed) == []
    assert left.idle_in_transaction_session_timeout == "0"  # an effect's own limit went with it
