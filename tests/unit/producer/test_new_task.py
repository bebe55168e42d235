"""What a request may ask for; every refusal names the field and the limit."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Any
from uuid import uuid4

import pytest

from taskbell.producer import InvalidTask, NewTask, new_task_id
from taskbell.producer.new_task import Options


class Queue(StrEnum):
    MAIL = "mail"


class Level(IntEnum):
    HIGH = 7


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("queue", "", "must not be empty"),
        ("queue", None, "must be text, not NoneType"),
        ("queue", "é" * 101, "202 bytes of UTF-8, at most 200 are allowed"),
        ("queue", "amq.gen", "must not start with 'amq.'"),
        ("queue", "two\nlines", "contains a control character"),
        ("queue", "a,b", "may only hold letters a-z and A-Z, digits, _.:@#/+- and blanks between"),
        ("queue", " mail", "blanks between them"),
        ("queue", "mail ", "blanks between them"),
        ("queue", "nul\x00", "contains a NUL character"),
        ("queue", "\ud800", "contains a lone surrogate"),
        ("priority", 10, "must lie within 0 to 9"),
        ("priority", -1, "must lie within 0 to 9"),
        ("priority", True, "must be a whole number, not bool"),
        ("priority", 5.0, "must be a whole number, not float"),
        ("max_attempts", 0, "must lie within 1 to 1000"),
        ("max_attempts", 1001, "must lie within 1 to 1000"),
        ("max_attempts", 10**30, "must lie within 1 to 1000"),
        ("owner_id", "o" * 201, "201 bytes of UTF-8, at most 200 are allowed"),
        ("owner_id", 0, "must be text, not int"),
        ("partition_key", "", "must not be empty"),
        ("partition_key", "p" * 513, "513 bytes of UTF-8, at most 512 are allowed"),
        ("correlation_id", "", "must not be empty"),
        ("correlation_id", "c" * 201, "201 bytes of UTF-8, at most 200 are allowed"),
        ("correlation_id", "a\r\nb", "contains a control character"),
        ("idempotency_key", "", "must not be empty"),
        ("idempotency_key", "k" * 1025, "1025 bytes of UTF-8, at most 1024 are allowed"),
        ("idempotency_key", b"key", "must be text, not bytes"),
        ("delay", -0.1, "must lie within 0 to"),
        ("delay", math.nan, "must lie within 0 to"),
        ("delay", math.inf, "must lie within 0 to"),
        ("delay", 10**400, "must lie within 0 to"),
        ("delay", timedelta(days=3661), "must lie within 0 to 316224000 seconds"),
        ("delay", True, "must be seconds or a timedelta, not bool"),
        ("delay", "5", "must be seconds or a timedelta, not str"),
        ("scheduled_at", datetime(2026, 1, 1), "must have a time zone"),  # noqa: DTZ001 - the point
        ("scheduled_at", "2026-01-01", "must be a datetime, not str"),
        (
            "scheduled_at",
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
            "lies outside the calendar",
        ),
        ("task_id", "not-a-uuid", "must be a UUID, not str"),
        ("task_id", uuid4(), "must be of version 7: new_task_id() mints one"),
    ],
)
def test_a_field_that_breaks_its_rule_is_refused(field: str, value: object, problem: str) -> None:
    options: Any = {field: value}

    with pytest.raises(InvalidTask, match=re.escape(problem)) as refused:
        NewTask("send_receipt", **options)

    assert refused.value.field == field


@pytest.mark.parametrize("name", ["", "t" * 201, "a\x00", "tab\t", 7, None])
def test_a_type_needs_a_name_that_can_be_read(name: Any) -> None:
    with pytest.raises(InvalidTask) as refused:
        NewTask(name)

    assert refused.value.field == "type"


def test_delay_and_scheduled_at_exclude_each_other() -> None:
    with pytest.raises(InvalidTask, match="delay: cannot be combined with scheduled_at"):
        NewTask("t", delay=1, scheduled_at=datetime.now(UTC))


def test_the_longest_names_and_keys_are_allowed() -> None:
    options: Options = {
        "queue": "q" * 200,
        "owner_id": "o" * 200,
        "partition_key": "p" * 512,
        "correlation_id": "c" * 200,
        "idempotency_key": "k" * 1024,
        "delay": timedelta(days=3660),
        "task_id": new_task_id(),
    }

    assert NewTask("t" * 200, **options).delay == 316_224_000


def test_an_empty_owner_is_an_owner() -> None:
    assert NewTask("t", owner_id="").owner_id == ""


def test_enumerations_become_the_plain_values_that_drivers_write() -> None:
    request = NewTask("t", queue=Queue.MAIL, priority=Level.HIGH)

    assert type(request.queue) is str
    assert type(request.priority) is int
    assert (request.queue, request.priority) == ("mail", 7)


def test_an_instant_is_kept_in_utc() -> None:
    there = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))

    kept = NewTask("t", scheduled_at=there).scheduled_at

    assert kept is not None
    assert (kept, kept.tzinfo) == (there, UTC)


def test_the_payload_is_read_once_so_that_later_changes_do_not_matter() -> None:
    payload = {"order_id": 1}
    request = NewTask("t", payload)

    payload["order_id"] = 2

    assert request.encoded == '{"order_id":1}'


def test_a_request_does_not_show_its_payload() -> None:
    assert "secret" not in repr(NewTask("t", {"token": "secret"}))


def test_options_override_those_of_another_request() -> None:
    request = NewTask("t", {"a": 1}, queue="mail", priority=7)

    changed = NewTask.of(request, priority=1, partition_key="p")

    assert changed == NewTask("t", {"a": 1}, queue="mail", priority=1, partition_key="p")


def test_a_request_brings_its_own_payload() -> None:
    with pytest.raises(InvalidTask, match="payload: a NewTask brings its own"):
        NewTask.of(NewTask("t"), {"a": 1})


@pytest.mark.parametrize("unknown", [None, 7, object(), {"type": "t"}, NewTask])
def test_what_is_no_task_is_refused(unknown: Any) -> None:
    with pytest.raises(InvalidTask, match="task: must be the name of a type"):
        NewTask.of(unknown)


def test_a_misspelt_option_is_an_error() -> None:
    misspelt: Any = {"que": "mail"}

    with pytest.raises(TypeError, match="que"):
        NewTask.of("t", **misspelt)
