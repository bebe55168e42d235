"""What a key looks like, and what may be asked of a new one."""

import math
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from taskbell.shared.access import Grant, digest_of, is_key, is_prefix, new_key


def test_a_key_has_a_prefix_that_may_be_shown_and_two_hundred_fifty_six_bits_that_may_not() -> None:
    key = new_key()

    assert is_key(key.text)
    assert is_prefix(key.prefix)
    assert key.text.startswith(f"{key.prefix}_")
    assert len(key.text) == 56
    assert key.text not in repr(key)
    assert key.key_hash == digest_of(key.text) == sha256(key.text.encode()).digest()


def test_no_key_is_made_twice() -> None:
    made = [new_key() for _ in range(500)]

    assert len({key.text for key in made}) == len({key.prefix for key in made}) == 500


@pytest.mark.parametrize(
    "text",
    ["", "tbk_", "tbk_12345678", "tbk_12345678_short", "tbk_1234567٣_" + "a" * 43,
     "TBK_12345678_" + "a" * 43, "tbk_12345678_" + "a" * 44, "tbk_12345678_" + "a" * 43 + "\n"],
)  # fmt: skip
def test_what_only_resembles_a_key_is_none(text: str) -> None:
    assert not is_key(text)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"owner_id": "ü" * 101}, "owner: "),
        ({"owner_id": "a\x00"}, "owner: "),
        ({"owner_id": "a\nb"}, "owner: "),
        ({"label": "x" * 201}, "label: "),
        ({"scopes": ()}, "scopes: one or more of submit, read, cancel, operate, admin"),
        ({"scopes": ("read", "write")}, "scopes: "),
        ({"seconds": 0.0}, "a key's life: "),
        ({"seconds": math.inf}, "a key's life: "),
        ({"seconds": math.nan}, "a key's life: "),
        ({"rate": 1.0}, "rate and burst: both or neither"),
        ({"burst": 1.0}, "rate and burst: both or neither"),
        ({"rate": 0.0, "burst": 1.0}, "rate: "),
        ({"rate": math.nan, "burst": 1.0}, "rate: "),
        ({"rate": 1.0, "burst": 0.5}, "burst: "),
        ({"rate": 1.0, "burst": math.inf}, "burst: "),
        ({"rate": 1e10, "burst": 1.0}, "rate: "),
        ({"rate": 1.0, "burst": 1e10}, "burst: "),
    ],
)
def test_a_grant_that_cannot_be_kept_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    good = Grant("alice", ("read",))

    with pytest.raises(ValueError, match=f"^{sentence}"):
        replace(good, **wrong)
