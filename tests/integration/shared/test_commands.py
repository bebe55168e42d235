"""The operators' commands: what they print for people and programs, and how they end."""

import asyncio
import getpass
import json
from uuid import UUID

import pytest
from sqlalchemy.engine import make_url

from integration.shared.partitions import line
from services import Pooler
from support.commands import call, refusal, told
from support.factories import make_tasks
from support.hands import hands
from support.workers import rows, task_of


async def fail_tasks(url: str, ids: list[UUID], **rest: str) -> None:
    async with hands(url) as worker:
        for task_id in ids:
            await worker.fail(task_id, **rest)


@pytest.fixture
async def letters(url: str) -> list[UUID]:
    """Three dead letters: two of the cause f, one of the cause g."""
    ids = make_tasks(url, 3, payload={"secret": "hush"})
    await fail_tasks(url, ids[:2], error="[bold]bad\x1b[31m")
    await fail_tasks(url, ids[2:], fingerprint="g")
    return ids


def test_the_list_has_a_row_for_each_and_goes_on_where_it_ended(letters: list[UUID]) -> None:
    page = call("dead-letters", "list", "--limit", 2)
    after = page.stdout.splitlines()[-1].rpartition(" ")[2]
    rest = told("dead-letters", "list", "--limit", 2, "--after", after)

    assert [str(letters[2]) in page.stdout, str(letters[1]) in page.stdout] == [True, True]
    assert [each["task_id"] for each in rest] == [str(letters[0])]
    assert len(told("dead-letters", "list", "--cause", "f")) == 2


def test_a_strangers_error_neither_steers_the_terminal_nor_the_table(letters: list[UUID]) -> None:
    for arguments in (("list",), ("causes",), ("show", letters[0])):
        shown = call("dead-letters", *arguments).stdout

        assert "\x1b" not in shown
        assert "[bold]bad" in shown


def test_causes_are_counted(letters: list[UUID]) -> None:
    causes = told("dead-letters", "causes")

    assert [(each["fingerprint"], each["dead_letters"]) for each in causes] == [("f", 2), ("g", 1)]
    assert causes[0]["example"] == str(letters[1])


def test_a_letter_is_shown_with_its_history_and_without_its_payload(letters: list[UUID]) -> None:
    shown = told("dead-letters", "show", letters[2])
    for_people = call("dead-letters", "show", letters[2]).stdout

    assert [each["attempt"] for each in shown["history"]] == [1]
    assert shown["last_error"] == shown["history"][0]["error"] == "bad"
    assert "ValueError" in for_people
    assert "hush" not in for_people + json.dumps(shown)


def test_named_letters_are_redriven_and_what_had_none_is_told(
    url: str, letters: list[UUID]
) -> None:
    assert told("dead-letters", "redrive", *letters[:2], "--actor", "ann") == {
        "redriven": 2, "without_dead_letter": 0,
    }  # fmt: skip
    again = call("dead-letters", "redrive", *letters[:2], letters[2])

    assert (again.exit_code, again.stdout) == (1, "1 redriven, 2 had no dead letter\n")
    log = rows(url, "SELECT actor FROM taskbell.audit_log ORDER BY id")
    assert [row.actor for row in log] == ["ann", "ann", getpass.getuser()]


@pytest.mark.parametrize(
    ("arguments", "deed", "left"),
    [
        (["redrive", "--all"], "redrive 3", 0),
        (["redrive", "--cause", "f", "--rate", "5"], "redrive 2", 1),
        (["redrive", "--all", "--queue", "default"], "redrive 3", 0),
        (["discard", "--cause", "f"], "discard 2", 1),
    ],
)
@pytest.mark.usefixtures("letters")
def test_many_are_only_touched_after_a_yes(
    url: str, arguments: list[str], deed: str, left: int
) -> None:
    asked = call("dead-letters", *arguments)
    untouched = len(rows(url, "SELECT task_id FROM taskbell.dead_letter"))
    done = call("dead-letters", *arguments, "--yes")

    assert (asked.exit_code, asked.stderr) == (2, f"this would {deed}: repeat it with --yes\n")
    assert (untouched, done.exit_code) == (3, 0)
    assert len(rows(url, "SELECT task_id FROM taskbell.dead_letter")) == left


def test_one_may_be_discarded_without_a_yes(url: str, letters: list[UUID]) -> None:
    assert call("dead-letters", "discard", *letters).exit_code == 2
    assert call("dead-letters", "discard", letters[0]).stdout == "1 discarded\n"
    assert len(rows(url, "SELECT id FROM taskbell.task")) == 2


def test_a_task_is_shown_as_a_sentence_and_its_payload_only_when_asked(url: str) -> None:
    (task_id,) = make_tasks(url, payload={"secret": "hush"})

    plain = call("tasks", "show", task_id)
    asked = told("tasks", "show", task_id, "--payload")

    assert plain.stdout.startswith("PENDING: is due since ")
    assert "hush" not in plain.stdout
    assert asked["payload"] == {"secret": "hush"}
    assert asked["sentence"].startswith("PENDING: ")


def test_cancelling_answers_for_each_and_many_need_a_yes(url: str) -> None:
    ids = make_tasks(url, 2)

    asked = call("tasks", "cancel", *ids)
    done = told("tasks", "cancel", *ids, "--yes")
    late = told("tasks", "cancel", ids[0], code=1)

    assert asked.exit_code == 2
    assert {each["answer"] for each in done} == {"cancelled"}
    assert late == [{"task_id": str(ids[0]), "answer": "too late: CANCELLED"}]
    assert task_of(url, ids[0]).status == "CANCELLED"


def test_a_queue_is_paused_listed_and_resumed(url: str) -> None:
    assert call("queues", "pause", "q").stdout == "q is paused until it is resumed\n"
    assert call("queues", "pause", "r", "--for", 60).stdout.startswith("r is paused until 2")
    assert [each["paused"] for each in told("queues", "list")] == [True, True]
    assert "yes" in call("queues", "list").stdout
    assert call("queues", "resume", "q").stdout == "q is resumed\n"
    assert call("queues", "resume", "q").stderr == "q was not paused\n"
    assert len(rows(url, "SELECT id FROM taskbell.audit_log")) == 3


def test_a_held_partition_is_shown_and_released(url: str) -> None:
    assert call("queues", "set", "default", "--on-dead", "hold").stdout == "default: hold\n"
    ids = line(url, 2) + line(url, 2, "l")
    asyncio.run(fail_tasks(url, [ids[0], ids[2]]))

    return_code = call("queues", "release", "default", "--all").exit_code
    held = told("queues", "held", "default")
    waiting = call("tasks", "show", ids[1]).stdout.splitlines()[0]
    released = call("queues", "release", "default", "k")

    assert return_code == 2
    assert [(each["partition_key"], each["waiting"]) for each in held] == [("k", 1), ("l", 1)]
    assert (
        waiting == f"PENDING: waits until task {ids[0]}, which holds the partition, is dealt with"
    )
    assert released.stdout == "1 released\n"
    assert call("queues", "release", "default", "k").exit_code == 1
    assert told("queues", "release", "default", "--all") == {"queue": "default", "released": ["l"]}


def test_the_audit_ends_well_or_with_code_1(url: str) -> None:
    well = call("audit")
    (task_id,) = make_tasks(url)
    rows(url, "DELETE FROM taskbell.outbox")

    found = told("audit", "--patience", "0", code=1)

    assert (well.exit_code, well.stdout) == (0, "nothing found\n")
    assert [each["task_id"] for each in found] == [str(task_id)]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["tasks", "show", UUID(int=1)], 1, f"there is no task {UUID(int=1)}"),
        (["dead-letters", "show", UUID(int=1)], 1, f"task {UUID(int=1)} has no dead letter"),
        (["dead-letters", "redrive"], 2, "name either task ids, or --cause"),
        (["dead-letters", "redrive", UUID(int=1), "--all"], 2, "name either task ids, or --cause"),
        (["dead-letters", "discard", UUID(int=1), "--queue", "q"], 2, "--queue narrows --cause"),
        (["dead-letters", "list", "--after", "x"], 2, "--after takes what the page before"),
        (["queues", "release", "q"], 2, "name either a partition key or --all"),
        (["queues", "release", "q", "k"], 1, "partition k of q was not held"),
    ],
)
@pytest.mark.usefixtures("url")
def test_what_cannot_be_done_is_one_line(arguments: list[object], code: int, sentence: str) -> None:
    assert sentence in refusal(*arguments, code=code)


def test_a_database_that_is_not_migrated_is_one_line(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKBELL_DATABASE_URL", empty_database_url)

    assert "run taskbell migrate" in refusal("dead-letters", "list", code=1)


@pytest.mark.usefixtures("letters")
def test_the_commands_work_through_a_pooler(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Pooler(url) as pooler:
        database = make_url(url).database or ""
        monkeypatch.setenv("TASKBELL_DATABASE_URL", pooler.url_of(database))
        causes = [told("dead-letters", "causes") for _ in range(3)]
        redriven = told("dead-letters", "redrive", "--all", "--yes")
        findings = told("audit")

    assert [len(each) for each in causes] == [2, 2, 2]
    assert redriven["redriven"] == 3
    assert findings == []
