"""Who seals with what: the ring for most, an owner's own key where there is one."""

import base64
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast
from uuid import UUID, uuid4

import pytest

from support.clocks import Clock
from taskbell.shared.database import Rows
from taskbell.shared.errors import Unreadable
from taskbell.shared.sealing import Kind, Seals, TaskSeal, key_id_of, opened_text
from taskbell.shared.sealing.keyring import Keyring
from taskbell.shared.statement import Statement
from taskbell.shared.statements import data_key

A, B = base64.b64encode(b"a" * 32).decode(), base64.b64encode(b"b" * 32).decode()
TASK_ID = uuid4()


class Row(NamedTuple):
    """A row of ``data_key``."""

    owner_id: str
    key_id: str
    wrapped: bytes | None


class Table:
    """The owners' keys, and what was asked for."""

    def __init__(self) -> None:
        self.keys: list[Row] = []
        self.asked: list[object] = []

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        ((name, given),) = parameters.items()
        wanted = cast("list[str]", given)
        self.asked.append(wanted)
        if statement is data_key.OF_OWNERS:
            assert name == "owner_ids"
            return [each for each in self.keys if each.wrapped and each.owner_id in wanted]
        assert (statement, name) == (data_key.BY_IDS, "key_ids")
        return [each for each in self.keys if each.key_id in wanted]

    def give(self, seals: Seals, owner_id: str) -> str:
        key_id, wrapped = seals.new_data_key(owner_id)
        self.keys.append(Row(owner_id, key_id, wrapped))
        return key_id

    def erase(self, owner_id: str) -> None:
        self.keys = [
            each._replace(wrapped=None) if each.owner_id == owner_id else each for each in self.keys
        ]


def seals_of(keys: str = f"k1:{A}", clock: Callable[[], float] = Clock()) -> Seals:  # noqa: B008 - it stands
    return Seals(Keyring(keys), clock)


@pytest.fixture
def table() -> Table:
    return Table()


def test_sealing_is_off_unless_keys_are_named(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"k:{A}", encoding="utf-8")

    assert Seals.of(None, None) is None
    assert isinstance(Seals.of(f"k:{A}", None), Seals)
    assert isinstance(Seals.of(None, file), Seals)
    with pytest.raises(ValueError, match="not both"):
        Seals.of(f"k:{A}", file)


def test_tasks_of_nobody_are_sealed_by_the_ring_without_asking() -> None:
    seals = seals_of()
    seal = seals.for_task(TASK_ID, "")

    assert (seal.key_id, seals.unknown_owners([""])) == ("k1", [])
    assert seals.open(Kind.PAYLOAD, TASK_ID, "", seal.seal(Kind.PAYLOAD, b"{}")) == b"{}"


async def test_an_owner_is_asked_for_once_in_half_a_minute(table: Table) -> None:
    clock = Clock()
    seals = seals_of(clock=clock)
    with pytest.raises(LookupError):
        seals.for_task(TASK_ID, "Ada")

    await seals.learn(table, ["Ada", "Bob", "", "Ada"])
    clock.now += 20
    await seals.learn(table, ["Ada", "Bob"])
    assert table.asked == [["Ada", "Bob"]]
    assert seals.for_task(TASK_ID, "Ada").key_id == "k1"

    clock.now += 8
    assert seals.for_task(TASK_ID, "Ada").key_id == "k1"  # there is time to use what was learnt
    await seals.learn(table, ["Ada"])
    assert table.asked == [["Ada", "Bob"], ["Ada"]]

    clock.now += 31
    with pytest.raises(LookupError):
        seals.for_task(TASK_ID, "Ada")
    with pytest.raises(LookupError):
        seals.key_id_for("Ada")


async def test_an_owners_key_seals_for_that_owner_alone(table: Table) -> None:
    seals = seals_of()
    key_id = table.give(seals, "Ada")
    await seals.learn(table, ["Ada", "Bob"])

    hers, his = seals.for_task(TASK_ID, "Ada"), seals.for_task(TASK_ID, "Bob")
    sealed = hers.seal(Kind.PAYLOAD, b"1")

    assert (hers.key_id, his.key_id) == (key_id, "k1")
    assert key_id.startswith("o-")
    assert key_id_of(sealed) == key_id
    assert seals.open(Kind.PAYLOAD, TASK_ID, "Ada", sealed) == b"1"
    with pytest.raises(Unreadable, match="changed"):
        seals.open(Kind.PAYLOAD, TASK_ID, "Bob", sealed)


async def test_a_reader_learns_the_key_from_what_was_sealed(table: Table) -> None:
    writer, reader = seals_of(), seals_of()
    table.give(writer, "Ada")
    await writer.learn(table, ["Ada"])
    seal = writer.for_task(TASK_ID, "Ada")
    sealed, text = seal.seal(Kind.RESULT, b"1"), seal.seal_text(Kind.ERROR, "no")
    with pytest.raises(Unreadable, match="key unknown"):
        reader.open(Kind.RESULT, TASK_ID, "Ada", sealed)

    table.asked.clear()
    await reader.learn(
        table, sealed=[sealed, text, None, b"{}", "no", seal.seal_text(Kind.ERROR, "")]
    )

    assert table.asked == [[seal.key_id]]
    assert reader.open(Kind.RESULT, TASK_ID, "Ada", sealed) == b"1"
    assert reader.open_text(Kind.ERROR, TASK_ID, "Ada", text) == "no"


async def test_an_erased_key_is_out_of_use_within_half_a_minute(table: Table) -> None:
    clock = Clock()
    seals = seals_of(clock=clock)
    table.give(seals, "Ada")
    await seals.learn(table, ["Ada"])
    sealed = seals.for_task(TASK_ID, "Ada").seal(Kind.PAYLOAD, b"1")

    table.erase("Ada")
    clock.now += 30.1
    await seals.learn(table, ["Ada"], [sealed])

    with pytest.raises(Unreadable, match="erased"):
        seals.open(Kind.PAYLOAD, TASK_ID, "Ada", sealed)
    assert seals.for_task(TASK_ID, "Ada").key_id == "k1"


async def test_a_key_that_is_nowhere_is_asked_for_once(table: Table) -> None:
    seals = seals_of()
    key_id = Table().give(seals, "Ada")
    lost = TaskSeal(key_id, TASK_ID, "Ada", b"k" * 32).seal(Kind.PAYLOAD, b"1")

    for _ in range(2):
        await seals.learn(table, sealed=[lost])
        with pytest.raises(Unreadable, match="key unknown"):
            seals.open(Kind.PAYLOAD, TASK_ID, "Ada", lost)

    assert table.asked == [[key_id]]


async def test_the_ring_never_stands_in_for_an_owners_key_it_cannot_open(table: Table) -> None:
    table.give(seals_of(f"k1:{A}"), "Ada")
    other = seals_of(f"k2:{B}")

    await other.learn(table, ["Ada"])

    with pytest.raises(Unreadable, match="key unknown"):
        other.for_task(TASK_ID, "Ada")


async def test_a_wrapped_key_that_is_given_to_another_owner_does_not_open(table: Table) -> None:
    seals = seals_of()
    table.give(seals, "Ada")
    table.keys = [each._replace(owner_id="Eve") for each in table.keys]

    await seals.learn(table, ["Eve"])

    with pytest.raises(Unreadable, match="changed"):
        seals.for_task(TASK_ID, "Eve")


async def test_keys_may_be_exchanged_while_the_older_ones_still_open(table: Table) -> None:
    before, between, after = seals_of(f"k1:{A}"), seals_of(f"k2:{B},k1:{A}"), seals_of(f"k2:{B}")
    sealed = before.for_task(TASK_ID, "").seal(Kind.PAYLOAD, b"1")
    key_id = table.give(before, "Ada")

    assert between.open(Kind.PAYLOAD, TASK_ID, "", sealed) == b"1"
    assert between.for_task(TASK_ID, "").key_id == between.active_key_id == "k2"
    with pytest.raises(Unreadable, match="key unknown"):
        after.open(Kind.PAYLOAD, TASK_ID, "", sealed)

    (row,) = table.keys
    assert row.wrapped is not None
    again = between.rewrapped("Ada", row.wrapped)
    assert again is not None
    assert between.rewrapped("Ada", again) is None
    await before.learn(table, ["Ada"])
    table.keys = [row._replace(wrapped=again)]
    await after.learn(table, ["Ada"])
    hers = before.for_task(TASK_ID, "Ada").seal(Kind.PAYLOAD, b"2")
    assert (key_id_of(hers), after.open(Kind.PAYLOAD, TASK_ID, "Ada", hers)) == (key_id, b"2")


def test_texts_are_opened_where_they_are_sealed_and_never_raise() -> None:
    seals, other = seals_of(f"k1:{A}"), seals_of(f"k2:{B}")
    sealed = seals.for_task(TASK_ID, "").seal_text(Kind.ERROR, "sealed:1:really?")

    for text in (None, "", "plain", "sealed:1:", "sealed:1:not/one", "(sealed)"):
        assert seals.open_text(Kind.ERROR, TASK_ID, "", text) == text
    assert seals.open_text(Kind.ERROR, TASK_ID, "", sealed) == "sealed:1:really?"
    assert seals.open_text(Kind.TRACEBACK, TASK_ID, "", sealed) == "(unreadable: changed)"
    assert seals.open_text(Kind.ERROR, UUID(int=1), "", sealed) == "(unreadable: changed)"
    assert other.open_text(Kind.ERROR, TASK_ID, "", sealed) == "(unreadable: key unknown)"
    assert opened_text(None, Kind.ERROR, TASK_ID, "", sealed) == "(sealed)"
    assert opened_text(None, Kind.ERROR, TASK_ID, "", "plain") == "plain"


async def test_what_is_not_used_any_more_is_forgotten(table: Table) -> None:
    clock = Clock()
    seals = seals_of(clock=clock)
    await seals.learn(table, [f"owner {number}" for number in range(1000)])

    assert vars(seals)["_owners"].keys() >= {"owner 1", "owner 999"}
    clock.now += 31
    await seals.learn(table, ["Ada"])

    assert list(vars(seals)["_owners"]) == ["Ada"]


def test_a_task_seal_travels_with_the_tasks_own_key_alone() -> None:
    seal = seals_of().for_task(TASK_ID, "")
    pickled = pickle.dumps(seal)

    assert b"a" * 32 not in pickled
    again = pickle.loads(pickled)  # noqa: S301 - our own
    assert again == seal
    assert seals_of().open(Kind.RESULT, TASK_ID, "", again.seal(Kind.RESULT, b"1")) == b"1"


def test_no_key_is_shown() -> None:
    seals = seals_of()

    for shown in (repr(seals), repr(seals.for_task(TASK_ID, "")), repr(vars(seals))):
        assert "aaaa" not in shown
        assert A not in shown


def test_the_library_is_loaded_by_those_alone_who_seal() -> None:
    loading = (
        "import sys, taskbell.consumer, taskbell.shared.sealing, taskbell.producer as p;"
        " p.Producer(); print('cryptography' in sys.modules)"
    )

    said = subprocess.run(
        [sys.executable, "-c", loading], capture_output=True, text=True, check=True
    )

    assert said.stdout.strip() == "False"


def test_without_the_library_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(ValueError, match=r"taskbell-shared\[sealing\]"):
        Seals.of(f"k:{A}", None)
