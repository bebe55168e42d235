"""Only an announcement is read as one; everything else is nothing to do."""

import json

import pytest

from taskbell.shared.ids import new_task_id
from taskbell.shared.wire import NotAnAnnouncement, decode, encode


@pytest.mark.parametrize("count", [1, 100])
def test_what_was_encoded_is_decoded(count: int) -> None:
    task_ids = [new_task_id() for _ in range(count)]

    assert list(decode(encode(task_ids))) == task_ids


def test_a_full_announcement_stays_below_four_kibibytes() -> None:
    assert len(encode([new_task_id() for _ in range(100)])) < 4096


@pytest.mark.parametrize("count", [0, 101])
def test_too_few_or_too_many_ids_are_refused(count: int) -> None:
    with pytest.raises(NotAnAnnouncement):
        encode([new_task_id() for _ in range(count)])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b"[]",
        b'["os.system"]',
        b"[1]",
        b"[null]",
        b"\x80\x04\x95",
        b"[" * 5000,
        b"[" * 50_000,
        json.dumps([str(new_task_id())] * 101).encode(),
    ],
)
def test_anything_else_is_no_announcement(body: bytes) -> None:
    with pytest.raises(NotAnAnnouncement):
        decode(body)
