"""Where an object may be, in the words of a row: nothing leads out of the root."""

from uuid import UUID

import pytest

from taskbell.shared.storage.location import Location, owner_segment, task_of

TASK_ID = UUID("01990000-0000-7000-8000-000000000001")
HASH = "0" * 64


def test_a_location_is_read_as_it_was_written() -> None:
    location = Location.fresh("result", TASK_ID, "alice", b"[1]")

    assert Location.read(str(location)) == location
    assert location.size == 3
    assert task_of(location.path) == TASK_ID


def test_no_two_objects_of_a_task_share_a_place() -> None:
    one, other = (Location.fresh("payload", TASK_ID, "", b"{}") for _ in range(2))

    assert one.path != other.path
    assert one.path.startswith("payload/_/")


def test_an_owner_is_not_told_by_its_part_of_the_storage() -> None:
    assert "alice" not in Location.fresh("payload", TASK_ID, "alice", b"{}").path
    assert owner_segment("alice") != owner_segment("alice ")


@pytest.mark.parametrize(
    "path",
    [
        "payload/../secret",
        "payload/alice/../../secret",
        "client/alice/./a",
        "client/alice/.hidden",
        "/payload/alice/a",
        "payload//a",
        "payload/alice/",
        "payload/alice",
        "payload/alice/%2e%2e/a",
        "payload/alice/a\\b",
        "payload/alice/a b",
        "payload/alice/ä",
        "payload/alice/a\n",
        "other/alice/a",
        "taskbell",
        "client/a/b/c/d/e/f",
        "",
    ],
)
def test_a_path_that_is_not_one_of_ours_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not the location"):
        Location.read(f"{path}#sha256={HASH}&size=1")


@pytest.mark.parametrize(
    "rest",
    [
        "",
        f"#sha256={HASH}",
        f"#sha256={HASH[1:]}&size=1",
        f"#sha256={HASH}&size=-1",
        f"#sha256={HASH}&size=01",
        f"#sha256={HASH}&size=1 ",
        f"#sha256={HASH}&size={'9' * 17}",
        f"#sha256={HASH.replace('0', 'A')}&size=1",
        f"#sha256={HASH}&size=1&more=1",
    ],
)
def test_a_location_tells_hash_and_size_exactly(rest: str) -> None:
    with pytest.raises(ValueError, match="not the location"):
        Location.read("payload/_/a" + rest)


@pytest.mark.parametrize(
    "path",
    [
        "client/_/0199000000007000800000000000000a/0123456789abcdef",
        "payload/_/0199000000007000800000000000000a/0123456789abcde",
        "payload/_/0199/0123456789abcdef",
        "payload/_/notes.txt",
        "payload/alice/0199000000007000800000000000000a/0123456789abcdef",
        "taskbell",
    ],
)
def test_only_what_we_wrote_ourselves_has_a_task(path: str) -> None:
    assert task_of(path) is None


def test_an_owners_own_objects_lie_in_its_own_part() -> None:
    location = Location(f"client/{owner_segment('alice')}/a", HASH, 1)

    assert location.is_offered_by("alice")
    assert not location.is_offered_by("bob")
    assert not location.is_offered_by("")
