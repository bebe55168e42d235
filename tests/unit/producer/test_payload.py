"""What a payload may hold, and what is refused with its path before anything is written."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.producer import InvalidTask
from taskbell.producer.payload import encode

LIMIT = 1024 * 1024
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 7


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@given(JSON)
def test_plain_json_survives_the_way_there_and_back(payload: object) -> None:
    assert json.loads(encode(payload, LIMIT)) == payload


@given(JSON)
def test_the_size_counted_on_the_way_is_never_more_than_the_real_one(payload: object) -> None:
    size = len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())

    assert encode(payload, size)


def test_the_order_of_keys_makes_no_difference_but_one_and_one_point_zero_do() -> None:
    assert encode({"a": 1, "b": 2}, LIMIT) == encode({"b": 2, "a": 1}, LIMIT)
    assert encode(1, LIMIT) != encode(1.0, LIMIT)


def test_enumerations_and_tuples_are_written_as_what_they_hold() -> None:
    assert encode({"c": Colour.RED, "l": (Level.HIGH,)}, LIMIT) == '{"c":"red","l":[7]}'


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"lines": [0, 1, 2, {"price": math.nan}]}, "payload.lines[3].price: not a finite number"),
        ({"a": math.inf}, "payload.a: not a finite number"),
        (-math.inf, "payload: not a finite number"),
        ({"a": "x\x00"}, "payload.a: contains a NUL character"),
        ({"a": {"b\x00": 1}}, "payload.a: has a key that contains a NUL character"),
        ({"a": "\ud800"}, "payload.a: contains a lone surrogate"),
        ({"\udfff": 1}, "payload: has a key that contains a lone surrogate"),
        ([2**63], "payload[0]: an integer beyond 64 bits"),
        ([-(2**63) - 1], "payload[0]: an integer beyond 64 bits"),
        ({"a": {1: 2}}, "payload.a: has a key that is not text but int"),
        ({"a b": {"": [b""]}}, 'payload["a b"][""][0]: bytes is not a JSON type'),
        ({"a": uuid4()}, "payload.a: UUID is not a JSON type"),
        ({"a": datetime.now(UTC)}, "payload.a: datetime is not a JSON type"),
        ({"a": Decimal(1)}, "payload.a: Decimal is not a JSON type"),
        ({"a": {1, 2}}, "payload.a: set is not a JSON type"),
        (object(), "payload: object is not a JSON type"),
    ],
)
def test_what_is_not_plain_json_is_refused_by_its_path(payload: object, message: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        encode(payload, LIMIT)

    assert str(refused.value).startswith(message)


def test_values_that_typed_tasks_can_write_are_refused_with_that_hint() -> None:
    with pytest.raises(InvalidTask, match="declare a TypedTask, which does"):
        encode(uuid4(), LIMIT)


def test_a_refusal_shows_at_most_the_beginning_of_a_long_key() -> None:
    with pytest.raises(InvalidTask) as refused:
        encode({"k" * 10_000: math.nan}, LIMIT)

    assert len(str(refused.value)) < 120


def test_a_hundred_levels_are_allowed_and_no_more() -> None:
    assert encode(nested(100), LIMIT)
    with pytest.raises(InvalidTask, match="nested deeper than 100"):
        encode(nested(101), LIMIT)


def test_the_deepest_payload_ends_in_a_refusal() -> None:
    with pytest.raises(InvalidTask, match="nested deeper than 100"):
        encode(nested(100_000), LIMIT)


def test_a_cyclic_payload_ends_in_a_refusal() -> None:
    array: list[Any] = []
    array.append(array)
    node: dict[str, Any] = {"a": 1}
    node["self"] = [node, node]

    for payload in (array, node):
        with pytest.raises(InvalidTask, match="nested deeper than 100"):
            encode(payload, LIMIT)


def test_a_small_structure_shared_a_billion_times_is_refused_for_its_size() -> None:
    payload: object = "lol"
    for _ in range(30):
        payload = [payload, payload]

    with pytest.raises(InvalidTask, match=f"payload: more than {LIMIT} bytes of JSON"):
        encode(payload, LIMIT)


def test_the_limit_counts_bytes_of_utf8() -> None:
    assert encode("é" * 4, 10) == '"éééé"'
    with pytest.raises(InvalidTask, match="payload: 12 bytes of JSON, at most 11 are allowed"):
        encode("é" * 5, 11)
