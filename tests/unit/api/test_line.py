"""The lines of partition keys: one for each owner, and none that can be entered by its name."""

import pytest

from taskbell.producer.api.line import key_of, line_of
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import OWNER_BYTES, PARTITION_KEY_BYTES


def test_owners_with_one_key_have_lines_of_their_own() -> None:
    assert line_of("a", "order-17") != line_of("b", "order-17")
    assert line_of("a", "order-17") == line_of("a", "order-17")


@pytest.mark.parametrize("key", ["order-17", "_.order-17"])
@pytest.mark.parametrize("owner_id", ["", "a", "a/b", "ä" * (OWNER_BYTES // 2)])
def test_an_owner_reads_the_key_it_gave(owner_id: str, key: str) -> None:
    assert key_of(owner_id, line_of(owner_id, key)) == key
    assert key_of(owner_id, None) is None


def test_nobody_enters_another_owners_line_by_its_name() -> None:
    line = line_of("a", "order-17")

    with pytest.raises(InvalidTask, match="partition_key"):
        line_of("", line)
    assert line_of("b", line) != line


def test_the_longest_key_of_the_interface_fits_the_longest_line() -> None:
    assert len(line_of("a", "\N{GRINNING FACE}" * 120).encode()) <= PARTITION_KEY_BYTES
