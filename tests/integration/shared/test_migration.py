"""Migrating: any number at once, nobody held up for long, and an honest answer where it stands."""

import time
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psycopg
import pytest

from support.waiting import PATIENCE, wait_until
from support.workers import rows
from taskbell.shared import migration, schema
from taskbell.shared.database import conninfo
from taskbell.shared.migration import LockedOutError, MigrationError, check, upgrade

ADVISORY_KEY = "hashtextextended('taskbell.schema_version', 0)"
NEXT_REVISION = """
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.execute("ALTER TABLE taskbell.task ADD COLUMN note text")
"""


@pytest.fixture
def newer_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that carries one revision more, which needs an exclusive lock on `task`."""
    (tmp_path / "0002_note.py").write_text(NEXT_REVISION)
    monkeypatch.setattr(migration, "VERSIONS", (*migration.VERSIONS, tmp_path))
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "0002"))


def connect(url: str, *, autocommit: bool = True) -> psycopg.Connection:
    return psycopg.connect(conninfo(url), autocommit=autocommit)


def waiting(url: str, condition: str) -> list[int]:
    """The processes of the server that wait for such a lock in this database."""
    question = f"""SELECT pid FROM pg_locks WHERE NOT granted AND {condition}
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
    return [pid for (pid,) in rows(url, question)]


def test_ten_upgrades_at_once_make_one_schema(empty_database_url: str) -> None:
    processes = get_context("forkserver")
    processes.set_forkserver_preload(["taskbell.shared.migration"])
    with (
        ProcessPoolExecutor(10, mp_context=processes) as pool,
        connect(empty_database_url) as gate,
    ):
        gate.execute(f"SELECT pg_advisory_lock({ADVISORY_KEY})".encode())
        running = [pool.submit(upgrade, empty_database_url) for _ in range(10)]
        wait_until(
            "two upgrades wait",
            lambda: len(waiting(empty_database_url, "locktype = 'advisory'")) > 1,
        )
        gate.execute(f"SELECT pg_advisory_unlock({ADVISORY_KEY})".encode())

        errors = [upgraded.exception(timeout=PATIENCE) for upgraded in running]

    assert errors == [None] * 10
    revision = "SELECT version_num FROM taskbell.schema_version"
    assert rows(empty_database_url, revision) == [("0001",)]


def test_threads_of_one_process_may_upgrade_at_once(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(upgrade, [empty_database_url] * 4))

    assert check(empty_database_url).answer == "current"


def test_a_database_of_dedup_keys_may_become_taskbells_own(empty_database_url: str) -> None:
    migration.install_effects(empty_database_url)

    upgrade(empty_database_url)

    assert check(empty_database_url).answer == "current"


def test_a_second_upgrade_writes_nothing(database_url: str) -> None:
    read_only = f"{database_url}{'&' if '?' in database_url else '?'}options="
    read_only += "-c%20default_transaction_read_only%3Don"

    upgrade(read_only)

    assert check(database_url).answer == "current"


@pytest.mark.usefixtures("newer_code")
def test_an_upgrade_makes_way_while_a_reader_is_in_front_and_gets_there_after_it(
    database_url: str,
) -> None:
    exclusive = "relation = 'taskbell.task'::regclass AND mode = 'AccessExclusiveLock'"
    with ThreadPoolExecutor(1) as threads, connect(database_url, autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM taskbell.task")
        running = threads.submit(upgrade, database_url)
        first = wait_until("it waits", lambda: waiting(database_url, exclusive))

        began = time.monotonic()
        rows(database_url, "SELECT count(*) FROM taskbell.task")
        held_up = time.monotonic() - began
        wait_until("it tries anew", lambda: set(waiting(database_url, exclusive)) - set(first))
        answer_meanwhile = check(database_url).answer
        reader.rollback()
        running.result(timeout=PATIENCE)

    assert held_up < 5
    assert answer_meanwhile == "behind"
    assert check(database_url).answer == "current"


@pytest.mark.usefixtures("newer_code")
def test_an_upgrade_without_patience_leaves_everything_as_it_was(database_url: str) -> None:
    with connect(database_url, autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM taskbell.task")

        with pytest.raises(LockedOutError):
            upgrade(database_url, patience=0)

    assert str(check(database_url)) == "the schema is behind: at 0001, revision 0002 is needed"


@pytest.mark.usefixtures("newer_code")
def test_an_upgrade_ends_the_transaction_it_could_not_finish(
    empty_database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "0002_note.py").write_text(NEXT_REVISION.replace("taskbell.task", "taskbell.typo"))

    with pytest.raises(MigrationError, match="typo"):
        upgrade(empty_database_url)

    assert check(empty_database_url).answer == "missing"
    assert rows(empty_database_url, "SELECT to_regnamespace('taskbell') IS NULL") == [(True,)]


def test_check_tells_missing_from_current(empty_database_url: str, database_url: str) -> None:
    missing, current = check(empty_database_url), check(database_url)

    assert (missing.answer, missing.found, missing.ready) == ("missing", None, False)
    assert (current.answer, current.found, current.ready) == ("current", "0001", True)


@pytest.mark.usefixtures("newer_code")
def test_check_tells_that_the_database_is_behind(database_url: str) -> None:
    state = check(database_url)

    assert (state.answer, state.found, state.needed) == ("behind", "0001", "0002")
    assert not state.ready


def test_a_database_that_is_ahead_is_ready_and_left_alone(database_url: str) -> None:
    with connect(database_url) as connection:
        connection.execute("UPDATE taskbell.schema_version SET version_num = '9999'")

    upgrade(database_url)
    state = check(database_url)

    assert (state.answer, state.found, state.needed) == ("ahead", "9999", "0001")
    assert state.ready


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_usual_way_to_write_the_scheme_is_understood(scheme: str, database_url: str) -> None:
    assert check(database_url.replace("postgresql+psycopg", scheme)).answer == "current"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:geheim@127.0.0.1:1/x",
        "postgresql://user:ge@heim@127.0.0.1/x",
        "postgresql://user:geheim@127.0.0.1:port/x",
        "postgresql://user:geheim@127.0.0.1:1/x?no_such_option=1",
        "mysql://user:geheim@127.0.0.1/x",
        "geheim",
    ],
)
def test_a_url_that_leads_nowhere_is_one_line_without_the_password(url: str) -> None:
    with pytest.raises(MigrationError) as caught:
        check(url)

    assert "\n" not in str(caught.value)
    assert "heim" not in "".join(traceback.format_exception(caught.value))
