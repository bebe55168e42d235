"""Requests become statements, rows become answers."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from taskbell.producer import (
    Enqueued,
    IdempotencyConflict,
    InvalidTask,
    NewTask,
    Producer,
    new_task_id,
)
from taskbell.producer.ask import ask_for, request_hash
from taskbell.producer.birth import RINGING, SILENT
from taskbell.producer.submission import answer, submission_of_many, submission_of_one
from taskbell.producer.terms import Terms

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TERMS = Terms(owner_id="shop", ring=True, payload_limit=1000)
FULL = NewTask(
    "t",
    {"b": 1, "a": [1.5, "é"]},
    queue="mail",
    priority=7,
    max_attempts=8,
    partition_key="p",
    idempotency_key="k",
    delay=90,
)


def test_the_hash_of_a_request_never_changes_between_versions() -> None:
    assert request_hash(FULL).hex() == "85ca3e8e976f0eea427e6ef057853d22"


@pytest.mark.parametrize(
    "change",
    [
        {"queue": "other"},
        {"priority": 6},
        {"max_attempts": 9},
        {"partition_key": None},
        {"delay": 91},
        {"delay": None},
        {"delay": None, "scheduled_at": NOW},
    ],
)
def test_whatever_the_caller_asks_for_is_in_the_hash(change: dict[str, Any]) -> None:
    assert request_hash(NewTask.of(FULL, **change)) != request_hash(FULL)


def test_type_and_payload_are_in_the_hash_and_one_differs_from_one_point_zero() -> None:
    hashes = {
        request_hash(NewTask(*asked)) for asked in [("t", 1), ("t", 1.0), ("t", "1"), ("u", 1)]
    }

    assert len(hashes) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"correlation_id": "c"},
        {"owner_id": "o"},
        {"task_id": new_task_id()},
        {"delay": timedelta(seconds=90)},
    ],
)
def test_what_changes_when_a_request_is_repeated_is_not_in_the_hash(change: dict[str, Any]) -> None:
    assert request_hash(NewTask.of(FULL, **change)) == request_hash(FULL)


def test_the_same_request_written_in_another_way_has_the_same_hash() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))

    assert request_hash(NewTask("t", {"a": 1, "b": 2}, scheduled_at=NOW)) == request_hash(
        NewTask("t", {"b": 2, "a": 1}, scheduled_at=there)
    )
    assert request_hash(NewTask("t", delay=0)) == request_hash(NewTask("t"))


@pytest.mark.parametrize("births", [RINGING, SILENT])
@pytest.mark.parametrize("key", [None, "k"])
def test_every_statement_gets_exactly_its_parameters(births: Any, key: str | None) -> None:
    terms = Terms("", ring=births is RINGING, payload_limit=1000)
    request = NewTask("t", idempotency_key=key)

    one = submission_of_one(request, terms, None, NOW)
    many = submission_of_many([ask_for(request, terms, NOW)], terms, None)

    assert one.statement is (births.one_with_key if key else births.one)
    assert many.statement is (births.many_with_keys if key else births.many)
    assert set(one.parameters) == one.statement.parameters
    assert set(many.parameters) == many.statement.parameters


def test_only_ringing_statements_notify() -> None:
    for statement in (RINGING.one, RINGING.one_with_key, RINGING.many, RINGING.many_with_keys):
        assert "pg_notify" in statement.sql
    for statement in (SILENT.one, SILENT.one_with_key, SILENT.many, SILENT.many_with_keys):
        assert "pg_notify" not in statement.sql


def test_a_task_without_an_owner_gets_the_producers() -> None:
    assert ask_for(NewTask("t"), TERMS, NOW).owner_id == "shop"
    assert ask_for(NewTask("t", owner_id=""), TERMS, NOW).owner_id == ""


def test_a_task_may_be_scheduled_ten_years_ahead_and_no_further() -> None:
    ten_years = NOW + timedelta(seconds=316_224_000)

    assert ask_for(NewTask("t", scheduled_at=ten_years), TERMS, NOW).scheduled_at == ten_years
    with pytest.raises(InvalidTask, match="scheduled_at: must lie within 316224000 seconds"):
        ask_for(NewTask("t", scheduled_at=ten_years + timedelta(seconds=1)), TERMS, NOW)


def test_a_producer_may_lower_the_payload_limit() -> None:
    with pytest.raises(InvalidTask, match="payload: 1001 bytes of JSON, at most 1000 are allowed"):
        ask_for(NewTask("t", "x" * 999), TERMS, NOW)


@pytest.mark.parametrize("limit", [0, -1, 1024 * 1024 + 1])
def test_a_producer_may_not_raise_the_payload_limit(limit: int) -> None:
    with pytest.raises(ValueError, match="payload_limit"):
        Producer(payload_limit=limit)


def test_a_producer_refuses_an_owner_no_task_could_have() -> None:
    with pytest.raises(InvalidTask, match="owner_id"):
        Producer(owner_id="o" * 201)


def test_a_row_becomes_an_answer() -> None:
    task_id = new_task_id()

    assert answer(FULL, (task_id, True, True, 0), TERMS) == Enqueued(task_id, created=True)


def test_another_request_under_the_same_key_is_a_conflict_that_names_both() -> None:
    task_id = new_task_id()

    with pytest.raises(IdempotencyConflict) as conflict:
        answer(FULL, (task_id, False, False, 0), TERMS)

    assert (conflict.value.idempotency_key, conflict.value.task_id) == ("k", task_id)


def test_a_driver_that_shows_its_parameters_does_not_show_the_payload() -> None:
    submission = submission_of_one(NewTask("t", {"token": "secret"}), TERMS, None, NOW)

    assert submission.parameters["payload"] == '{"token":"secret"}'
    assert "secret" not in repr(submission.parameters)
