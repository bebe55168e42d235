"""Postgres must be able to store whatever a handler or its exception produced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.shared.text import storable


@given(st.text(st.characters(codec=None)), st.integers(8, 64))
def test_any_text_becomes_utf8_of_at_most_the_limit_without_nul(text: str, limit: int) -> None:
    stored = storable(text, limit)

    assert len(stored.encode("utf-8")) <= limit
    assert "\x00" not in stored


@pytest.mark.parametrize("text", ["", "plain", "äöü", "😀" * 2])
def test_what_fits_stays_as_it_is(text: str) -> None:
    assert storable(text, 100) == text


def test_what_does_not_fit_is_marked() -> None:
    assert storable("x" * 100, 10) == "x" * 7 + "…"


def test_a_lone_surrogate_is_replaced() -> None:
    assert storable("a\ud800b", 100) == "a?b"
