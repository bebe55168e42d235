"""Columns of a batch reach Postgres as they are."""

from datetime import UTC, datetime

from taskbell.shared.array import array, quoted, quoted_bytes, quoted_instant


def test_a_column_of_equals_is_written_as_one_of_differing_values_is() -> None:
    assert array(quoted, ["a", "a"]) == '{"a","a"}'
    assert array(quoted, ["a", "b"]) == '{"a","b"}'


def test_what_ends_an_element_elsewhere_is_part_of_it() -> None:
    assert array(quoted, ['a"b', "a\\b", "{,}", "NULL", ""]) == (
        '{"a\\"b","a\\\\b","{,}","NULL",""}'
    )


def test_none_is_null_and_other_types_are_in_their_own_form() -> None:
    assert array(repr, [None, 1e-300]) == "{NULL,1e-300}"
    assert array(quoted_bytes, [b"\x00\xff", None]) == '{"\\\\x00ff",NULL}'
    assert array(quoted_instant, [datetime(2026, 5, 1, tzinfo=UTC)]) == (
        '{"2026-05-01T00:00:00+00:00"}'
    )
