"""Exceptions as problem documents."""

import json
from uuid import UUID

import psycopg
import pytest

from taskbell.producer import (
    IdempotencyConflict,
    InvalidTask,
    NewTask,
    QueueFull,
    RateLimited,
    StorageAway,
    Unreadable,
)
from taskbell.producer.api import problems
from taskbell.producer.api.problems import KINDS, Problem
from taskbell.shared.errors import DatabaseAway

TASK = UUID("01980b1c-8d4e-7cc3-98c4-dc0c0c07398f")


def _away(cause: psycopg.Error | None = None) -> DatabaseAway:
    error = DatabaseAway("host db.internal is away")
    error.__cause__ = cause
    return error


FORESEEN = {
    "invalid-task": InvalidTask("queue", "must not be empty"),
    "idempotency-conflict": IdempotencyConflict("a key", TASK),
    "queue-full": QueueFull("mails", 1.2),
    "rate-limited": RateLimited("owner", "acme", 2.0),
    "storage-away": StorageAway("s3://bucket is away"),
    "erased": Unreadable("erased"),
    "database-away": _away(),
    "database-read-only": _away(psycopg.errors.ReadOnlySqlTransaction()),
    "not-migrated": psycopg.errors.UndefinedTable(),
}


@pytest.mark.parametrize("name", FORESEEN)
def test_what_taskbell_raises_has_a_problem_of_its_own(name: str) -> None:
    problem = problems.of(FORESEEN[name])

    assert problem is not None
    assert problem.kind.name == name


@pytest.mark.parametrize("name", FORESEEN)
def test_those_who_should_come_back_are_told_when(name: str) -> None:
    problem = problems.of(FORESEEN[name])

    assert problem is not None
    told = problem.headers.get("Retry-After", "")
    assert told.isdigit() == (problem.kind.status in {429, 503})


def test_part_of_a_second_counts_as_a_whole_one() -> None:
    problem = problems.of(QueueFull("mails", 1.2))

    assert problem is not None
    assert problem.headers == {"Retry-After": "2"}
    assert problem.members["retry_after"] == 2


def test_nothing_of_servers_and_keys_is_told() -> None:
    for error in FORESEEN.values():
        problem = problems.of(error)
        assert problem is not None
        written = problems.document(problem, "id").decode()
        assert not any(word in written for word in ("db.internal", "bucket", "a key"))


def test_a_submission_that_met_an_outage_may_have_been_done() -> None:
    problem = problems.of(_away(), submitting=True)

    assert problem is not None
    assert "Idempotency-Key" in problem.detail


def test_what_nobody_foresaw_has_none() -> None:
    assert problems.of(ValueError("a secret")) is None


def test_a_document_has_the_members_of_rfc_9457() -> None:
    problem = Problem("invalid-task", "no", errors=[("/queue", "is empty")], task_id=str(TASK))

    written = json.loads(problems.document(problem, "6f0f5f0e"))

    assert written == {
        "type": "urn:taskbell:problem:invalid-task",
        "title": KINDS["invalid-task"].title,
        "status": 422,
        "detail": "no",
        "instance": "urn:uuid:6f0f5f0e",
        "task_id": str(TASK),
        "errors": [{"pointer": "/queue", "detail": "is empty"}],
    }


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        ({"lines": [{"price": 2**70}]}, "/payload/lines/0/price"),
        ({"a b": {"c/d~e": float("nan")}}, "/payload/a b/c~1d~0e"),
        ({'quoted " and ]': [1, "\x00"]}, '/payload/quoted " and ]/1'),
        ([[[float("inf")]]], "/payload/0/0/0"),
        ("\x00", "/payload"),
    ],
)
def test_a_pointer_leads_to_what_was_refused(payload: object, pointer: str) -> None:
    with pytest.raises(InvalidTask) as refusal:
        NewTask("noop", payload)

    assert problems.pointer(refusal.value.field) == pointer


def test_a_text_that_is_no_utf_8_can_be_sent_back() -> None:
    assert problems.echoed("a\ud800b") == "a?b"
    assert len(problems.echoed("x" * 1000)) == 201
