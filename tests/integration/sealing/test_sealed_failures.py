"""What goes wrong with a sealed task says nothing of it, and may still be grouped and read."""

import pytest

from integration.consumer.kinds import AT_ONCE
from integration.consumer.ledger import WRITE, make_ledger
from support import isolated
from support.factories import make_tasks
from support.keyrings import seals_of
from support.sealed import CANARY, OLD, everything, make_due, make_sealed
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Reject
from taskbell.consumer.reports import IgnoredAfterEffect
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.dead_letters import causes
from taskbell.shared.events import TaskFailed
from taskbell.shared.sealing import Kind

CARD = {"card": CANARY}


def failing(ran: list[int]) -> Consumer:
    """Handlers that quote their payload as they fail."""
    app = Consumer()

    @app.handler("charge", retry=AT_ONCE)
    async def charge(context: Context, payload: dict[str, str]) -> None:
        ran.append(context.attempt)
        raise ValueError(f"no such card: {payload['card']}")

    @app.handler("reject")
    def reject(_context: Context, payload: dict[str, str]) -> None:
        raise Reject(payload["card"])

    @app.handler("unstorable")
    def unstorable(_context: Context, payload: dict[str, str]) -> object:
        return {payload["card"]: object()}

    @app.handler("late")
    def late(context: Context, payload: dict[str, str]) -> None:
        with context.effect() as session:
            session.execute(WRITE, {"entry": "once"})
        raise ValueError(payload["card"])

    return app


@pytest.mark.parametrize("name", ["charge", "reject", "unstorable", "quoting"])
async def test_errors_of_a_sealed_task_are_sealed_and_the_log_says_class_and_cause(
    database_url: str, reports: Reports, name: str
) -> None:
    app = isolated.app if name == "quoting" else failing([])
    task_id = make_sealed(database_url, CARD, type=name, max_attempts=2)
    async with working(app, database_url, reports, seal_keys=OLD):
        await reports.settled(task_id, status="FAILED")

    assert CANARY not in everything(database_url)
    told = reports.of(TaskFailed)
    assert {each.error for each in told} == {"(sealed)"}
    assert all(each.error_class for each in told)

    seals = seals_of("k1")
    (letter,) = rows(database_url, "SELECT * FROM taskbell.dead_letter")
    failures = rows(database_url, "SELECT * FROM taskbell.failure ORDER BY attempt")
    task = task_of(database_url, task_id)
    for text in (letter.last_error, task.error_message, *(each.error for each in failures)):
        assert CANARY in str(seals.open_text(Kind.ERROR, task_id, "", text))
    for each in failures:
        opened = seals.open_text(Kind.TRACEBACK, task_id, "", each.traceback)
        assert opened is not None
        assert "File " in opened
    assert letter.error_class == told[-1].error_class
    assert len(failures) == len(told)


async def test_causes_group_as_they_do_without_sealing(database_url: str, reports: Reports) -> None:
    ids = [make_sealed(database_url, {"card": f"{CANARY} {n}"}, type="reject") for n in range(3)]
    async with working(failing([]), database_url, reports, seal_keys=OLD):
        await reports.settled(*ids, status="FAILED")

    connection = DedicatedConnection(Database(database_url), "causes")
    (cause,) = await causes(connection)
    await connection.close()
    assert (cause.dead_letters, cause.error_class) == (3, "taskbell.Reject")


async def test_what_a_handler_says_after_its_effect_is_not_told(
    database_url: str, reports: Reports
) -> None:
    make_ledger(database_url)
    task_id = make_sealed(database_url, CARD, type="late")
    async with working(failing([]), database_url, reports, seal_keys=OLD):
        await reports.some(IgnoredAfterEffect)
        await reports.settled(task_id)

    assert [each.error for each in reports.of(IgnoredAfterEffect)] == ["(sealed)"]


def spoil(url: str, task_id: object, how: str) -> None:
    """Change a sealed payload, or whose it is."""
    change: dict[str, str] = {
        "a byte": "payload_sealed = set_byte(payload_sealed, 40, get_byte(payload_sealed, 40) # 1)",
        "the owner": "owner_id = 'Eve'",
        "all of it": "payload_sealed = '\\x7b7d'",
        "to nothing": "payload_sealed = ''",
    }
    rows(url, f"UPDATE taskbell.task SET {change[how]} WHERE id = %s", task_id)


@pytest.mark.parametrize("how", ["a byte", "the owner", "all of it", "to nothing"])
async def test_a_changed_payload_makes_a_dead_letter_at_once_and_reaches_no_handler(
    database_url: str, reports: Reports, how: str
) -> None:
    ran = list[int]()
    task_id = make_sealed(database_url, CARD, type="charge", due=False)
    spoil(database_url, task_id, how)
    make_due(database_url, task_id)
    async with working(failing(ran), database_url, reports, seal_keys=OLD):
        await reports.settled(task_id, status="FAILED")

    (letter,) = rows(database_url, "SELECT * FROM taskbell.dead_letter")
    assert (letter.error_class, letter.attempt_count) == ("taskbell.UnreadablePayload", 1)
    assert letter.last_error == "the content cannot be read: changed"
    assert ran == []


async def test_a_payload_of_another_task_is_not_taken_for_ones_own(
    database_url: str, reports: Reports
) -> None:
    ran = list[int]()
    first, second = (make_sealed(database_url, CARD, type="charge", due=False) for _ in "ab")
    rows(
        database_url,
        "UPDATE taskbell.task t SET payload_sealed = o.payload_sealed FROM taskbell.task o "
        "WHERE t.id = %s AND o.id = %s",
        first, second,
    )  # fmt: skip
    make_due(database_url, first)
    async with working(failing(ran), database_url, reports, seal_keys=OLD):
        await reports.settled(first, status="FAILED")

    assert ran == []


async def test_errors_without_sealing_are_as_they_were(database_url: str, reports: Reports) -> None:
    (task_id,) = make_tasks(database_url, type="reject", payload=CARD)
    async with working(failing([]), database_url, reports):
        await reports.settled(task_id, status="FAILED")

    task = task_of(database_url, task_id)
    assert task.error_message == CANARY
    assert [each.error for each in reports.of(TaskFailed)] == [CANARY]
