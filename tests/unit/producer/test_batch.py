"""How many requests become few statements."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from taskbell.producer import Enqueued, InvalidTask, NewTask, new_task_id
from taskbell.producer import batch as batches
from taskbell.producer.batch import Batch
from taskbell.producer.terms import Terms

TERMS = Terms(owner_id="", ring=True, payload_limit=1024 * 1024)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def batch_of(tasks: Iterable[Any]) -> Batch:
    return Batch(tasks, TERMS, None, NOW)


def places(tasks: Iterable[Any]) -> list[list[int]]:
    return [list(chunk) for chunk, _ in batch_of(tasks).submissions()]


def test_no_tasks_make_no_statement() -> None:
    assert places([]) == []
    assert batch_of([]).answers() == []


def test_a_batch_within_the_limit_is_one_statement_in_the_callers_order() -> None:
    assert places(NewTask("t", idempotency_key=f"k{n}") for n in range(50)) == [list(range(50))]


def test_a_large_batch_is_several_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK_TASKS", 2)

    assert places(NewTask("t") for _ in range(5)) == [[0, 1], [2, 3], [4]]


def test_large_payloads_make_small_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK_CHARACTERS", 10)

    assert places(NewTask("t", "x" * size) for size in (2, 2, 20, 2)) == [[0, 1], [2], [3]]


def test_statements_take_keys_in_one_order_whatever_the_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "CHUNK_TASKS", 3)
    tasks = [NewTask("t", idempotency_key=f"k{n}") for n in range(9)]

    forward = [sorted(chunk) for chunk in places(tasks)]
    backward = [sorted(8 - place for place in chunk) for chunk in places(reversed(tasks))]

    assert forward == backward


def test_what_stands_in_line_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK_TASKS", 2)
    tasks = [
        NewTask("t", partition_key="p", idempotency_key=str(n) if n % 2 else None) for n in range(6)
    ]

    assert places(tasks) == [[0, 1], [2, 3], [4, 5]]


def test_answers_come_in_the_callers_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK_TASKS", 2)
    tasks = [NewTask("t", task_id=new_task_id(), idempotency_key=f"k{n}") for n in range(5)]
    batch = batch_of(tasks)

    for chunk, submission in batch.submissions():
        ids = [UUID(each) for each in str(submission.parameters["id"])[1:-1].split(",")]
        batch.note(chunk, [(task_id, True, True, 0) for task_id in ids])

    assert [answer.task_id for answer in batch.answers()] == [task.task_id for task in tasks]


def test_an_id_given_twice_is_created_once() -> None:
    task_id = new_task_id()
    batch = batch_of([NewTask("t", task_id=task_id), NewTask("t", task_id=task_id)])

    ((chunk, _),) = batch.submissions()
    batch.note(chunk, [(task_id, True, True, 0), (task_id, True, True, 0)])

    assert batch.answers() == [Enqueued(task_id, created=True), Enqueued(task_id, created=False)]


@pytest.mark.parametrize(
    ("task", "field"), [("t", "tasks[1]"), (NewTask("t", "x" * 2000), "tasks[1].payload")]
)
def test_a_refusal_names_the_place_in_the_batch(task: Any, field: str) -> None:
    terms = Terms(owner_id="", ring=True, payload_limit=1000)

    with pytest.raises(InvalidTask) as refused:
        Batch([NewTask("t"), task], terms, None, NOW)

    assert refused.value.field == field
