"""The ring: the first key seals, all of them open, and its file may change at any time."""

import base64
import os
from pathlib import Path

import pytest

from support.clocks import Clock
from support.keyrings import write
from taskbell.shared.events import Event
from taskbell.shared.sealing.keyring import Keyring, KeyringUnreadable, Ring

A, B = base64.b64encode(b"a" * 32).decode(), base64.b64encode(b"b" * 32).decode()


@pytest.mark.parametrize(
    "text",
    [
        f"new:{A},old:{B}", f"new:{A}\nold:{B}\n", f" new:{A} , old:{B} ", f"new:{A}\r\nold:{B}",
        f"# the keys\n\nnew:{A}\n# and the old one\nold:{B}", f"new:{A.rstrip('=')},old:{B}",
    ],
)  # fmt: skip
def test_the_first_key_seals_and_all_of_them_open(text: str) -> None:
    ring = Ring.read(text)

    assert ring.active == "new"
    assert dict(ring.keys) == {"new": b"a" * 32, "old": b"b" * 32}


def test_both_alphabets_of_base64_are_read() -> None:
    key = b"\xfb\xff" * 16

    for written in (base64.b64encode(key), base64.urlsafe_b64encode(key)):
        assert Ring.read(f"k:{written.decode()}").keys["k"] == key


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there are no keys"),
        (" , \n# nothing", "there are no keys"),
        (A, "entry 1 .*its id"),
        (f"new:{A},:{B}", "entry 2 .*its id"),
        (f"näw:{A}", "entry 1 .*its id"),
        (f"{'k' * 33}:{A}", "entry 1 .*its id"),
        (f"o-mine:{A}", "entry 1 .*owners' keys"),
        (f"new:{A},new:{B}", "entry 2 .*twice"),
        ("new:c2hvcnQ=", "entry 1 .*32 bytes"),
        (f"new:{A[:-3]}!==", "entry 1 .*32 bytes"),
        ("new:", "entry 1 .*32 bytes"),
    ],
)
def test_a_bad_entry_is_named_by_its_number_and_never_quoted(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        Ring.read(text)

    assert A not in str(refused.value)
    assert "c2hvcnQ" not in str(refused.value)


def test_no_key_is_shown() -> None:
    ring = Ring.read(f"new:{A}")

    assert "aaaa" not in repr(ring)
    assert A not in repr(ring)


def test_a_changed_file_is_followed_within_a_second(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys", Clock()
    write(file, f"old:{B}")
    keyring = Keyring(file, clock)

    write(file, f"new:{A}\nold:{B}")
    unseen = keyring.current().active
    clock.now += 1

    assert (unseen, keyring.current().active) == ("old", "new")
    assert set(keyring.current().keys) == {"new", "old"}


@pytest.mark.parametrize("trouble", ["gone", "empty", "garbage", "binary"])
def test_a_file_that_became_unusable_keeps_the_ring_and_is_told_once(
    tmp_path: Path, trouble: str
) -> None:
    file, clock, seen = tmp_path / "keys", Clock(), list[Event]()
    write(file, f"old:{B}")
    keyring = Keyring(file, clock)
    keyring.observe = seen.append

    match trouble:
        case "gone":
            file.unlink()
        case "binary":
            file.write_bytes(b"\xff\xfe\x00")
        case _:
            write(file, "" if trouble == "empty" else f"new {A}")
    for _ in range(3):
        clock.now += 1
        assert keyring.current().active == "old"

    (told,) = seen
    assert isinstance(told, KeyringUnreadable)
    assert A not in str(told)

    write(file, f"new:{A}")
    clock.now += 1
    assert keyring.current().active == "new"
    file.unlink()
    clock.now += 1
    assert keyring.current().active == "new"
    assert len(seen) == 2


def test_a_file_of_the_same_length_and_time_is_seen_to_be_another(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys", Clock()
    write(file, f"a1:{A}")
    keyring = Keyring(file, clock)
    before = file.stat()

    write(file, f"b1:{B}")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    clock.now += 1

    assert keyring.current().active == "b1"


def test_a_file_that_cannot_be_used_to_begin_with_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        Keyring(tmp_path / "none")
    with pytest.raises(ValueError, match="Is a directory"):
        Keyring(tmp_path)
