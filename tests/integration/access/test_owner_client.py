"""The owner's client sees and touches its own tasks alone, and so do the verbs beneath it."""

import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from support.hands import Hands, hands
from support.keyrings import seals_of
from support.workers import rows, task_of
from taskbell.producer import NewTask, OwnerClient, Producer, StorageAway, Unreadable
from taskbell.shared import dead_letters, tasks
from taskbell.shared.database import DedicatedConnection, conninfo
from taskbell.shared.dead_letters import Filters
from taskbell.shared.ids import new_task_id
from taskbell.shared.kept import Kept
from taskbell.shared.sealing import Kind, Seals
from taskbell.shared.storage import Storage


@pytest.fixture
async def alice(database_url: str) -> AsyncGenerator[OwnerClient]:
    async with OwnerClient(database_url, "alice") as client:
        yield client


def make(url: str, *owners: str) -> list[UUID]:
    """One task for each of these owners."""
    with psycopg.connect(conninfo(url)) as connection:
        asked = [NewTask("noop", {"of": owner}, owner_id=owner) for owner in owners]
        return [each.task_id for each in Producer().enqueue_many(connection, asked)]


async def test_it_finds_its_own_tasks_and_no_other(database_url: str, alice: OwnerClient) -> None:
    own, other, nobodys = make(database_url, "alice", "bob", "")

    found = await alice.find(own)

    assert found is not None
    assert (found.task_id, found.owner_id) == (own, "alice")
    assert [await alice.find(each) for each in (other, nobodys, new_task_id())] == [None] * 3


async def test_it_lists_its_own_tasks_page_by_page(database_url: str, alice: OwnerClient) -> None:
    ids = make(database_url, *["alice", "bob", ""] * 4)

    first = await alice.list_many(limit=3)
    rest = await alice.list_many(before=first.next, limit=3)

    listed = [each.task_id for each in (*first.tasks, *rest.tasks)]
    assert listed == ids[::3][::-1]
    assert (len(first.tasks), rest.next) == (3, None)


async def test_it_reads_results_of_its_own_tasks_alone(
    database_url: str, alice: OwnerClient, worker: Hands
) -> None:
    own, other, waiting = make(database_url, "alice", "bob", "alice")
    await worker.complete(await worker.claim_ids([own, other]))
    rows(database_url, "UPDATE taskbell.task SET result = '[1]' WHERE finished_at IS NOT NULL")

    assert await alice.result(own) == [1]
    assert [await alice.result(each) for each in (other, waiting, new_task_id())] == [None] * 3


async def test_it_cancels_its_own_tasks_and_for_others_knows_none(
    database_url: str, alice: OwnerClient, worker: Hands
) -> None:
    own, other, running = make(database_url, "alice", "bob", "bob")
    await worker.claim_ids([running])

    answers = [await alice.cancel(each) for each in (own, other, running, new_task_id())]

    assert answers == ["cancelled", "unknown", "unknown", "unknown"]
    assert [task_of(database_url, each).status for each in (own, other, running)] == [
        "CANCELLED", "PENDING", "IN_PROGRESS",
    ]  # fmt: skip
    (lease,) = rows(database_url, "SELECT cancel_requested FROM taskbell.lease")
    assert not lease.cancel_requested
    (deed,) = rows(database_url, "SELECT actor, action, subject FROM taskbell.audit_log")
    assert tuple(deed) == ("owner:alice", "cancel", str(own))


async def test_it_redrives_its_own_tasks_alone(
    database_url: str, alice: OwnerClient, worker: Hands
) -> None:
    own, other = make(database_url, "alice", "bob")
    for each in (own, other):
        await worker.fail(each)

    redriven = [await alice.redrive(each) for each in (own, other, own, new_task_id())]

    assert redriven == [True, False, False, False]
    assert task_of(database_url, other).status == "FAILED"


async def test_a_client_of_tasks_without_an_owner_reaches_nobody_elses(database_url: str) -> None:
    own, other = make(database_url, "", "alice")

    async with OwnerClient(database_url, "", actor="shop") as client:
        assert await client.find(own) is not None
        assert await client.find(other) is None
        assert await client.cancel(own) == "cancelled"

    (deed,) = rows(database_url, "SELECT actor FROM taskbell.audit_log")
    assert deed.actor == "shop"


@pytest.mark.parametrize("owner_id", ["a\x00", "x" * 201])
def test_an_owner_that_cannot_be_is_refused(owner_id: str) -> None:
    with pytest.raises(ValueError, match="owner_id: "):
        OwnerClient("postgresql://localhost/none", owner_id)


async def test_an_owners_letters_alone_are_shown_redriven_and_discarded(
    database_url: str, worker: Hands, connection: DedicatedConnection
) -> None:
    own, other, third = ids = make(database_url, "alice", "bob", "alice")
    for each in ids:
        await worker.fail(each)

    shown = [await dead_letters.show(connection, each, owner_id="alice") for each in ids]
    discarded = await dead_letters.discard_many(
        connection, [other, own], actor="me", owner_id="alice"
    )
    redriven = await dead_letters.redrive_many(
        connection, [other, third], actor="me", owner_id="alice"
    )

    assert [found is not None for found in shown] == [True, False, True]
    assert (discarded, redriven) == ([own], [third])
    assert task_of(database_url, other).status == "FAILED"
    assert [letter.owner_id for letter in await dead_letters.list_many(connection)] == ["bob"]


async def test_redriving_all_of_an_owner_stops_where_it_was_told_to(
    database_url: str, worker: Hands, connection: DedicatedConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(dead_letters, "_BATCH", 2)
    ids = make(database_url, *["alice", "bob"] * 5)
    for each in ids:
        await worker.fail(each)

    own = Filters(owner_id="alice")
    first = await dead_letters.redrive_all(connection, own, actor="me", limit=3)
    rest = await dead_letters.redrive_all(connection, own, actor="me", limit=3)

    assert (first, rest) == (3, 2)
    assert [task_of(database_url, each).status for each in ids] == ["PENDING", "FAILED"] * 5


async def test_many_ids_are_asked_for_in_portions_and_answered_in_order(
    database_url: str, connection: DedicatedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_BATCH", 3)
    ids = make(database_url, *["alice", "bob", "alice", "alice"] * 3)
    own = [each for n, each in enumerate(ids) if n % 4 != 1]

    assert await tasks.owned(connection, ids[::-1], "alice") == own[::-1]
    answers = await tasks.cancel_many(connection, ids, actor="me", owner_id="alice")
    assert list(answers) == ids
    assert {each for each in ids if answers[each] == "cancelled"} == set(own)


async def test_payloads_are_read_of_ones_own_tasks_alone(
    database_url: str, connection: DedicatedConnection
) -> None:
    own, other = make(database_url, "alice", "bob")

    mine = await tasks.payload_of(connection, own, owner_id="alice")
    others = [
        await tasks.payload_of(connection, each, owner_id="alice")
        for each in (other, new_task_id())
    ]

    assert mine == Kept("alice", {"of": "alice"}, None, None)
    assert others == [None, None]


async def test_a_result_that_is_sealed_or_kept_as_an_object_is_opened(
    database_url: str, tmp_path: Path
) -> None:
    ids = make(database_url, "alice", "alice", "alice", "bob")
    seals = seals_of("test")
    storage = Storage.at(f"file://{tmp_path}", inline_bytes=0)
    async with OwnerClient(database_url, "alice", seals=seals, storage=storage) as alice:
        await keep(database_url, seals, storage, ids)

        assert [await alice.result(each) for each in ids] == [[1], [2], [3], None]
        found = await alice.find(ids[0])

    assert found is not None
    assert found.error_message == "it was late"


async def test_what_cannot_be_opened_says_why(database_url: str, tmp_path: Path) -> None:
    ids = make(database_url, "alice", "alice", "alice")
    seals, other = seals_of("test"), seals_of("other")
    storage = Storage.at(f"file://{tmp_path}", inline_bytes=0)
    async with OwnerClient(database_url, "alice") as alice:
        await keep(database_url, seals, storage, ids)

        with pytest.raises(Unreadable, match="key unknown"):
            await alice.result(ids[0])
        with pytest.raises(StorageAway, match="no storage is set"):
            await alice.result(ids[2])
        found = await alice.find(ids[0])
        assert found is not None
        assert found.error_message == "(sealed)"
    async with OwnerClient(database_url, "alice", seals=other, storage=storage) as alice:
        with pytest.raises(Unreadable, match="key unknown"):
            await alice.result(ids[0])
        found = await alice.find(ids[0])
        assert found is not None
        assert found.error_message == "(unreadable: key unknown)"
        shutil.rmtree(tmp_path / "result")
        with pytest.raises(Unreadable, match="missing"):
            await alice.result(ids[2])


async def keep(url: str, seals: Seals, storage: Storage, ids: list[UUID]) -> None:
    """The first task's result is sealed, the second's a sealed object, the third's a clear one."""
    async with hands(url) as ours:
        await seals.learn(ours.connection, ["alice"])
    first, second, third = ids[:3]
    sealing = seals.for_task(first, "alice")
    inside, error = sealing.seal(Kind.RESULT, b"[1]"), sealing.seal_text(Kind.ERROR, "it was late")
    object_seal = seals.for_task(second, "alice").seal(Kind.RESULT, b"[2]")
    sealed_at = await storage.put("result", second, "alice", object_seal)
    clear_at = await storage.put("result", third, "alice", b"[3]")
    update = "UPDATE taskbell.task SET result_sealed = %s, error_message = %s WHERE id = %s"
    rows(url, update, inside, error, first)
    for task_id, location in ((second, sealed_at), (third, clear_at)):
        update = "UPDATE taskbell.task SET result_location = %s WHERE id = %s"
        rows(url, update, location, task_id)
