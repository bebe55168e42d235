"""An envelope opens for its own task, owner and kind, and for nothing that was changed."""

import hmac
import itertools
from dataclasses import replace
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from taskbell.shared.errors import Unreadable
from taskbell.shared.sealing import Kind, TaskSeal, envelope, key_id_of
from taskbell.shared.sealing.envelope import Envelope

KEY = bytes(range(32))
TASK_ID = UUID("0192f0c1-2345-7abc-8def-0123456789ab")
OWNER = "Ada"
CLEAR = b'{"card":"4111"}'

# Written by what is documented alone, in another language.
VECTOR = bytes.fromhex(
    "010107323032362d3131000102030405060708090a0b3623167a44201816ce9ac0262e"
    "6fbe61c4ff79632e331d4aeccd83ef9c1791"
)


def task_seal(task_id: UUID = TASK_ID, owner_id: str = OWNER) -> TaskSeal:
    return TaskSeal("2026-11", task_id, owner_id, envelope.key_for(KEY, task_id))


def unsealed(
    sealed: bytes, kind: Kind = Kind.PAYLOAD, task_id: UUID = TASK_ID, owner_id: str = OWNER
) -> bytes:
    found = Envelope.read(sealed)
    assert found is not None
    return envelope.unseal(found, KEY, kind, task_id, owner_id)


def test_what_was_sealed_is_read_back() -> None:
    for clear in (CLEAR, b"", bytes(100_000)):
        assert unsealed(task_seal().seal(Kind.PAYLOAD, clear)) == clear


def test_the_bytes_are_those_that_are_documented() -> None:
    sealed = task_seal().seal(Kind.RESULT, CLEAR)

    head, nonce, rest = sealed[:10], sealed[10:22], sealed[22:]
    assert head == b"\x01\x01\x07" + b"2026-11"
    key = hmac.digest(KEY, b"taskbell seal 1\0" + TASK_ID.bytes, "sha256")
    bound = head + b"\x02" + TASK_ID.bytes + b"Ada"
    assert AESGCM(key).decrypt(nonce, rest, bound) == CLEAR
    assert len(rest) == len(CLEAR) + 16


def test_what_another_program_sealed_by_the_documentation_is_read() -> None:
    assert unsealed(VECTOR, Kind.PAYLOAD) == CLEAR


def test_a_seal_opens_for_its_task_owner_and_kind_alone() -> None:
    sealed = task_seal().seal(Kind.PAYLOAD, CLEAR)
    other_task = UUID(int=TASK_ID.int + 1)

    for kind, task_id, owner_id in itertools.product(
        (Kind.PAYLOAD, Kind.RESULT), (TASK_ID, other_task), (OWNER, "Bob", "Ad", "Adaa", "")
    ):
        if (kind, task_id, owner_id) == (Kind.PAYLOAD, TASK_ID, OWNER):
            continue
        with pytest.raises(Unreadable, match="changed"):
            unsealed(sealed, kind, task_id, owner_id)


def test_no_byte_may_be_changed_and_none_be_missing_or_added() -> None:
    sealed = task_seal().seal(Kind.PAYLOAD, CLEAR)

    def opens(changed: bytes) -> bool:
        found = Envelope.read(changed)
        try:
            return found is not None and bool(
                envelope.unseal(found, KEY, Kind.PAYLOAD, TASK_ID, OWNER)
            )
        except Unreadable:
            return False

    flipped = [
        sealed[:place] + bytes([sealed[place] ^ (1 << bit)]) + sealed[place + 1 :]
        for place in range(len(sealed))
        for bit in range(8)
    ]
    cut = [sealed[:length] for length in range(len(sealed))]
    assert not any(map(opens, [*flipped, *cut, sealed + b"\0", sealed[1:]]))
    assert opens(sealed)


def test_two_seals_of_one_text_differ() -> None:
    seals = {task_seal().seal(Kind.PAYLOAD, CLEAR) for _ in range(100)}

    assert len(seals) == 100


def test_every_task_has_a_key_of_its_own() -> None:
    keys = {envelope.key_for(KEY, UUID(int=number)) for number in range(100)}

    assert len(keys) == 100
    assert KEY not in keys


def test_no_key_is_shown() -> None:
    assert repr(envelope.key_for(KEY, TASK_ID)) not in repr(task_seal())
    assert "key=" not in repr(replace(task_seal(), key=b"k" * 32)).replace("key_id=", "")


def test_text_is_told_from_sealed_text() -> None:
    sealed = task_seal().seal_text(Kind.ERROR, "no such card: 4111 ✓")

    assert sealed.startswith("sealed:1:")
    assert sealed.isascii()
    found = envelope.from_text(sealed)
    assert found is not None
    assert unsealed(found, Kind.ERROR).decode() == "no such card: 4111 ✓"
    assert key_id_of(sealed) == key_id_of(found) == "2026-11"


@pytest.mark.parametrize(
    "other",
    [
        "", "no luck", "sealed:1:", "sealed:1:abc", "sealed:1:a", "sealed:1:ÄÖ", "sealed:1:AQEH\n",
        "sealed:2:AQEHMjAyNi0xMQ", b"", b"\x01", b"\x01\x01", b"\x01\x01\x00" + bytes(40),
        b"\x01\x01\x21" + b"a" * 80, b"\x01\x02\x01a" + bytes(40), b"\x01\x01\x01\xff" + bytes(40),
        b"\x01\x01\x01a" + bytes(27), b'{"a":1}',
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_seen_to_be_none(other: bytes | str) -> None:
    assert key_id_of(other) is None


@pytest.mark.parametrize("key_id", ["k", "k" * 32])
@pytest.mark.parametrize("clear", [b"", CLEAR * 1000])
def test_the_head_of_an_envelope_tells_its_key_as_octets_and_as_text(
    key_id: str, clear: bytes
) -> None:
    sealed = envelope.seal(key_id, KEY, Kind.PAYLOAD, TASK_ID, OWNER, clear)

    assert key_id_of(sealed[: envelope.HEAD_BYTES]) == key_id
    assert key_id_of(envelope.as_text(sealed)[: envelope.HEAD_CHARACTERS]) == key_id
