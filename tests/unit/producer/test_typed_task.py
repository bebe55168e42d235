"""Payloads as pydantic models."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from types import new_class
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import Field, ValidationError

from taskbell.producer import InvalidTask, NewTask, TypedTask


class SendReceipt(TypedTask, type="send_receipt", queue="mail", max_attempts=8, priority=7):
    order_id: int


class Settle(TypedTask, type="settle"):
    account: UUID
    amount: Decimal = Field(alias="value")
    at: datetime
    type: str = "a field may have any name"


class Loose(TypedTask, type="loose"):
    value: object


def test_a_class_says_what_it_stands_for() -> None:
    assert SendReceipt.__task_type__ == "send_receipt"
    assert SendReceipt.__task_queue__ == "mail"
    assert SendReceipt.__task_priority__ == 7
    assert SendReceipt.__task_max_attempts__ == 8


def test_an_instance_becomes_a_request_with_the_defaults_of_its_class() -> None:
    request = NewTask.of(SendReceipt(order_id=17))

    assert request == NewTask(
        "send_receipt", {"order_id": 17}, queue="mail", max_attempts=8, priority=7
    )


def test_options_override_the_class() -> None:
    request = NewTask.of(SendReceipt(order_id=17), queue="slow", priority=0, delay=5)

    assert (request.queue, request.priority, request.max_attempts) == ("slow", 0, 8)
    assert request.delay == 5


def test_the_payload_is_read_back_by_the_model() -> None:
    task = Settle(account=uuid4(), value=Decimal("1.10"), at=datetime.now(UTC))

    payload = NewTask.of(task).payload

    assert isinstance(payload, dict)
    assert "value" in payload
    assert Settle.model_validate(payload) == task


def test_a_subclass_without_a_type_is_an_error_when_it_is_made() -> None:
    with pytest.raises(TypeError, match="type"):
        new_class("Nameless", (SendReceipt,))


def test_a_subclass_of_a_typed_task_names_its_own_type_and_inherits_the_rest() -> None:
    class SendReminder(SendReceipt, type="send_reminder", priority=1):
        pass

    assert SendReminder.__task_type__ == "send_reminder"
    assert SendReminder.__task_queue__ == "mail"
    assert (SendReminder.__task_priority__, SendReceipt.__task_priority__) == (1, 7)


@pytest.mark.parametrize(
    "keywords",
    [
        {"type": ""},
        {"type": "t", "queue": "amq.x"},
        {"type": "t", "priority": 10},
        {"type": "t", "max_attempts": 0},
    ],
)
def test_unusable_defaults_are_refused_when_the_class_is_made(keywords: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        new_class("Wrong", (TypedTask,), keywords)


def test_class_keywords_of_pydantic_work_as_ever() -> None:
    class Strict(TypedTask, type="strict", extra="forbid"):
        order_id: int

    with pytest.raises(ValidationError):
        Strict.model_validate({"order_id": 1, "more": 2})


@pytest.mark.parametrize("value", [math.nan, math.inf, [math.nan], 2**64, "\x00"])
def test_what_json_or_postgres_cannot_hold_is_refused_in_a_model_too(value: object) -> None:
    with pytest.raises(InvalidTask, match=r"payload\.value"):
        NewTask.of(Loose(value=value))


def test_a_model_that_cannot_be_written_is_refused_without_quoting_it() -> None:
    array: list[Any] = []
    array.append(array)

    for value in (object(), array, b"\xffsecret"):
        with pytest.raises(InvalidTask) as refused:
            NewTask.of(Loose(value=value))
        assert refused.value.field == "payload"
        assert "secret" not in str(refused.value)


def test_a_typed_task_brings_its_own_payload() -> None:
    with pytest.raises(InvalidTask, match="payload: a SendReceipt brings its own"):
        NewTask.of(SendReceipt(order_id=1), {"order_id": 2})


def test_the_root_of_typed_tasks_is_no_task() -> None:
    with pytest.raises(InvalidTask, match="pass one of a subclass"):
        NewTask.of(TypedTask())
