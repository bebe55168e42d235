"""Keys change while workers run, and not every worker has the same ones."""

from pathlib import Path

from support.keyrings import seals_of, write
from support.sealed import (
    CANARY,
    FOREIGN,
    NEW,
    OLD,
    erase_data_key,
    everything,
    give_data_key,
    make_sealed,
    result_of,
)
from support.workers import Reports, rows, task_of, working
from taskbell.consumer import Consumer, Context, Fixed
from taskbell.shared.events import StatementFailed, TaskFailed
from taskbell.shared.sealing import key_id_of
from taskbell.shared.sealing.keyring import KeyringUnreadable


def echoing(delay: float = 0) -> Consumer:
    """A handler that returns its payload."""
    app = Consumer()

    @app.handler("echo", retry=Fixed(delay))
    async def echo(_context: Context, payload: object) -> object:
        return payload

    return app


async def test_the_ring_changes_while_a_worker_runs(
    database_url: str, reports: Reports, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    write(file, OLD)
    async with working(echoing(), database_url, reports, seal_keys_file=file):
        first = make_sealed(database_url, CANARY, type="echo")
        await reports.settled(first)
        write(file, NEW, OLD)
        # It looks once a second at most: by and by the new key seals.
        sealed = list[object]()
        while "k2" not in sealed:
            later = make_sealed(database_url, CANARY, type="echo")
            await reports.settled(later)
            sealed.append(key_id_of(task_of(database_url, later).result_sealed))
        newest = make_sealed(database_url, CANARY, type="echo", seals=seals_of("k2"))
        await reports.settled(newest)

    assert key_id_of(task_of(database_url, first).result_sealed) == "k1"
    assert result_of(database_url, newest, seals_of("k2")) == CANARY
    assert reports.of(TaskFailed) == []


async def test_a_file_of_keys_that_becomes_unusable_stops_nothing_and_is_told_once(
    database_url: str, reports: Reports, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    write(file, OLD)
    async with working(echoing(), database_url, reports, seal_keys_file=file):
        write(file, "k1:broken")
        while not reports.of(KeyringUnreadable):
            await reports.settled(make_sealed(database_url, CANARY, type="echo"))
        for _ in range(3):
            await reports.settled(make_sealed(database_url, CANARY, type="echo"))

    assert len(reports.of(KeyringUnreadable)) == 1
    assert reports.of(TaskFailed) == []


async def test_a_worker_without_the_key_costs_a_try_and_another_worker_has_it(
    database_url: str, reports: Reports
) -> None:
    task_id = make_sealed(database_url, CANARY, type="echo", max_attempts=1000)
    for keys in ({"seal_keys": FOREIGN}, {}):
        tries = len(reports.of(TaskFailed))
        async with working(echoing(delay=0.1), database_url, reports, **keys):
            await reports.some(TaskFailed, count=tries + 1)
    async with working(echoing(), database_url, reports, seal_keys=f"{FOREIGN},{OLD}"):
        await reports.settled(task_id)

    assert result_of(database_url, task_id, seals_of("k3")) == CANARY
    assert {each.error_class for each in reports.of(TaskFailed)} == {
        "taskbell.Unreadable", "taskbell.ContentUnavailable"
    }  # fmt: skip


async def test_a_key_that_is_gone_for_good_ends_in_a_dead_letter(
    database_url: str, reports: Reports
) -> None:
    task_id = make_sealed(database_url, CANARY, type="echo", max_attempts=3)
    async with working(echoing(), database_url, reports, seal_keys=FOREIGN):
        await reports.settled(task_id, status="FAILED")

    (letter,) = rows(database_url, "SELECT * FROM taskbell.dead_letter")
    assert (letter.error_class, letter.attempt_count) == ("taskbell.Unreadable", 3)


async def test_the_tasks_of_an_owner_whose_key_was_erased_are_dead_letters_and_others_go_on(
    database_url: str, reports: Reports
) -> None:
    _, adas = await give_data_key(database_url, "Ada")
    _, bobs = await give_data_key(database_url, "Bob")
    hers = make_sealed(database_url, CANARY, seals=adas, type="echo", owner_id="Ada")
    his = make_sealed(database_url, CANARY, seals=bobs, type="echo", owner_id="Bob")
    erase_data_key(database_url, "Ada")
    async with working(echoing(), database_url, reports, seal_keys=OLD):
        await reports.settled(hers, status="FAILED")
        await reports.settled(his)

    assert result_of(database_url, his, bobs) == CANARY
    (failed,) = reports.of(TaskFailed)
    assert (failed.task_id, failed.error_class) == (hers, "taskbell.UnreadablePayload")
    assert CANARY not in everything(database_url)


async def test_a_task_of_an_owner_waits_for_a_database_that_cannot_be_asked(
    database_url: str, reports: Reports
) -> None:
    task_id = make_sealed(database_url, CANARY, type="echo", owner_id="Ada")
    rows(database_url, "ALTER TABLE taskbell.data_key RENAME TO hidden")
    async with working(echoing(), database_url, reports, seal_keys=OLD):
        await reports.some(StatementFailed, lambda event: event.purpose == "seal")
        rows(database_url, "ALTER TABLE taskbell.hidden RENAME TO data_key")
        await reports.settled(task_id)

    assert task_of(database_url, task_id).used == 1
    assert reports.of(TaskFailed) == []
