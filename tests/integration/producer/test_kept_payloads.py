"""Payloads that are sealed, or stored before the transaction, through every kind of connection."""

import base64
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from integration.producer.desks import Desk, Rows, open_desk
from taskbell.producer import (
    AsyncProducer,
    Enqueued,
    IdempotencyConflict,
    InvalidTask,
    NewTask,
    Producer,
    QueueFull,
    StoredPayload,
    Unreadable,
)
from taskbell.producer.ask import ask_for
from taskbell.producer.connection import run
from taskbell.producer.submission import submission_of_many
from taskbell.producer.terms import Terms
from taskbell.shared.database import conninfo
from taskbell.shared.sealing import Kind, Seals
from taskbell.shared.storage import Storage

Committed = Callable[[str], Rows]
Observer = psycopg.Connection[Any]
SECRET = {"card": "4111 1111 1111 1111"}
LARGE = {"text": "é" * 100}
NOW = datetime(2026, 5, 1, tzinfo=UTC)
KEPT = """
SELECT id, owner_id, payload, payload_sealed, payload_location FROM taskbell.task ORDER BY id
"""


def ring() -> Seals:
    made = Seals.of(f"one:{base64.b64encode(os.urandom(32)).decode()}", None)
    assert made is not None
    return made


@pytest.fixture
def seals() -> Seals:
    return ring()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path.as_uri(), inline_bytes=64)


@pytest.fixture
async def desk(kind: str, database_url: str, seals: Seals) -> AsyncIterator[Desk]:
    """A desk whose producer seals."""
    async with open_desk(kind, database_url, owner_id="shop", seals=seals) as opened:
        yield opened


def give_key(observer: Observer, seals: Seals, owner_id: str) -> str:
    key_id, wrapped = seals.new_data_key(owner_id)
    observer.execute(
        "INSERT INTO taskbell.data_key (key_id, owner_id, wrapped) VALUES (%s, %s, %s)",
        [key_id, owner_id, wrapped],
    )
    return key_id


def opened(seals: Seals, row: tuple[Any, ...]) -> bytes:
    task_id, owner_id, _, sealed, _ = row
    return seals.open(Kind.PAYLOAD, task_id, owner_id, sealed)


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("many", [False, True])
async def test_a_sealed_payload_is_nowhere_in_the_clear_and_opens_with_the_ring(
    desk: Desk, committed: Committed, seals: Seals, key: str | None, *, many: bool
) -> None:
    request = NewTask("t", SECRET, idempotency_key=key)
    await (desk.enqueue_many([request]) if many else desk.enqueue(request))
    await desk.commit()

    (row,) = committed(KEPT)
    assert (row[2], row[4]) == (None, None)
    assert b"4111" not in row[3]
    assert opened(seals, row) == request.encoded.encode()


@pytest.mark.parametrize("many", [False, True])
async def test_an_owner_with_a_key_of_its_own_is_sealed_for_by_that(
    desk: Desk,
    observer: Observer,
    committed: Committed,
    seals: Seals,
    *,
    many: bool,
) -> None:
    key_id = give_key(observer, seals, "o'neil\\\"{}")
    tasks = [NewTask("t", SECRET, owner_id=owner) for owner in ("o'neil\\\"{}", "shop", "")]

    for request in tasks:
        await (desk.enqueue_many([request]) if many else desk.enqueue(request))
    await desk.commit()

    rows = {row[1]: row for row in committed(KEPT)}
    assert {owner: opened(seals, row) for owner, row in rows.items()} == dict.fromkeys(
        ("o'neil\\\"{}", "shop", ""), tasks[0].encoded.encode()
    )
    assert {owner: key_id.encode() in row[3] for owner, row in rows.items()} == {
        "o'neil\\\"{}": True,
        "shop": False,
        "": False,
    }


async def test_a_key_that_this_ring_cannot_open_seals_nothing(
    desk: Desk, observer: Observer, committed: Committed
) -> None:
    give_key(observer, ring(), "shop")

    with pytest.raises(Unreadable):
        await desk.enqueue("t", SECRET)
    with pytest.raises(Unreadable):
        await desk.enqueue_many([NewTask("t", SECRET)])
    await desk.enqueue("t", owner_id="other")
    await desk.commit()

    assert [row[1] for row in committed(KEPT)] == ["other"]


async def test_the_same_request_is_the_same_task_whatever_seals_it(
    kind: str, database_url: str, desk: Desk
) -> None:
    first = await desk.enqueue("t", SECRET, idempotency_key="k")
    again = await desk.enqueue("t", SECRET, idempotency_key="k")
    await desk.commit()
    async with open_desk(kind, database_url, owner_id="shop") as plain:
        in_the_clear = await plain.enqueue("t", SECRET, idempotency_key="k")
        with pytest.raises(IdempotencyConflict):
            await plain.enqueue("t", LARGE, idempotency_key="k")

    assert first.created
    assert again == in_the_clear == Enqueued(first.task_id, created=False)


async def test_a_rolled_back_enqueue_leaves_no_key_in_use(
    desk: Desk, committed: Committed, observer: Observer, seals: Seals
) -> None:
    await desk.enqueue("t", SECRET)
    await desk.rollback()
    assert committed("SELECT * FROM taskbell.data_key") == []
    key_id = give_key(observer, seals, "other")
    observer.execute("DELETE FROM taskbell.data_key")

    await desk.enqueue("t", SECRET, owner_id="other")
    await desk.commit()

    (row,) = committed(KEPT)
    assert key_id.encode() not in row[3]


async def test_a_sealed_payload_asks_for_admission_as_any(
    kind: str, database_url: str, observer: Observer, committed: Committed, seals: Seals
) -> None:
    observer.execute("INSERT INTO taskbell.queue (name, max_depth) VALUES ('closed', 0)")
    async with open_desk(kind, database_url, seals=seals, admission=True) as desk:
        for key in (None, "k"):
            request = NewTask("t", SECRET, queue="closed", idempotency_key=key)
            with pytest.raises(QueueFull):
                await desk.enqueue(request)
            with pytest.raises(QueueFull):
                await desk.enqueue_many([request])
            assert (await desk.enqueue(NewTask.of(request, queue="open"))).created
            await desk.enqueue_many([NewTask("t", SECRET, queue="open", idempotency_key=key)])
        await desk.commit()

    assert [row[2:4] for row in committed(KEPT) if row[2] is not None or row[3] is None] == []
    assert len(committed(KEPT)) == 3


async def put(
    kind: str, database_url: str, payload: object, owner_id: str | None = None, **terms: Any
) -> StoredPayload:
    """What the producer of this kind of connection makes of a payload."""
    if kind.startswith("async"):
        async with await psycopg.AsyncConnection.connect(conninfo(database_url)) as waited:
            return await AsyncProducer(**terms).put(payload, owner_id, connection=waited)
    with psycopg.connect(conninfo(database_url)) as connection:
        return Producer(**terms).put(payload, owner_id, connection=connection)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("key", [None, "k"])
async def test_a_stored_payload_is_written_before_the_transaction_and_referred_to(
    kind: str,
    database_url: str,
    committed: Committed,
    storage: Storage,
    key: str | None,
    *,
    many: bool,
) -> None:
    stored = await put(kind, database_url, LARGE, owner_id="shop", storage=storage)
    async with open_desk(kind, database_url) as desk:
        request = NewTask("t", stored, idempotency_key=key)
        (enqueued,) = await desk.enqueue_many([request]) if many else [await desk.enqueue(request)]
        await desk.commit()

    assert committed(KEPT) == [(stored.task_id, "shop", None, None, stored.location)]
    assert enqueued == Enqueued(stored.task_id, created=True)
    assert (await storage.get(stored.location or "")).decode() == stored.encoded
    assert LARGE["text"][:20] not in repr(request)


async def test_a_stored_payload_is_sealed_before_it_leaves(
    kind: str,
    database_url: str,
    observer: Observer,
    committed: Committed,
    storage: Storage,
    seals: Seals,
) -> None:
    key_id = give_key(observer, seals, "shop")
    stored = await put(kind, database_url, LARGE, "shop", storage=storage, seals=seals)
    async with open_desk(kind, database_url, seals=seals, storage=storage) as desk:
        await desk.enqueue("t", stored)
        await desk.commit()

    body = await storage.get(stored.location or "")
    assert committed(KEPT) == [(stored.task_id, "shop", None, None, stored.location)]
    assert LARGE["text"][:20].encode() not in body
    assert key_id.encode() in body
    assert seals.open(Kind.PAYLOAD, stored.task_id, "shop", body).decode() == stored.encoded


async def test_what_is_small_is_put_nowhere_and_goes_in_the_row(
    kind: str, database_url: str, committed: Committed, storage: Storage
) -> None:
    exact = "x" * 62  # and two quotation marks
    stored = await put(kind, database_url, exact, storage=storage)
    larger = await put(kind, database_url, exact + "x", storage=storage)
    unstored = await put(kind, database_url, LARGE)
    async with open_desk(kind, database_url) as desk:
        for each in (stored, unstored):
            await desk.enqueue("t", each)
        await desk.commit()

    assert (stored.location, unstored.location) == (None, None)
    assert larger.location is not None
    payloads = {row[0]: row[2] for row in committed(KEPT)}
    assert payloads == {stored.task_id: exact, unstored.task_id: LARGE}
    assert len(await storage.listed("", 10)) == 1


async def test_a_payload_put_again_is_known_by_its_content(
    kind: str, database_url: str, storage: Storage
) -> None:
    stored = [await put(kind, database_url, LARGE, storage=storage) for _ in range(2)]
    async with open_desk(kind, database_url) as desk:
        first, again, plain = [
            await desk.enqueue("t", each, idempotency_key="k") for each in (*stored, LARGE)
        ]

    assert first == Enqueued(stored[0].task_id, created=True)
    assert again == plain == Enqueued(first.task_id, created=False)


async def test_a_stored_payload_stands_for_one_task_of_one_owner(
    kind: str, database_url: str, storage: Storage
) -> None:
    stored = await put(kind, database_url, LARGE, "shop", storage=storage)
    async with open_desk(kind, database_url, owner_id="other", own_only=True) as stranger:
        with pytest.raises(InvalidTask, match="owner_id"):
            await stranger.enqueue("t", stored)
    async with open_desk(kind, database_url) as desk:
        with pytest.raises(InvalidTask, match="owner_id: is not the one for which"):
            await desk.enqueue("t", stored, owner_id="other")
        first = await desk.enqueue("t", stored)
        second = await desk.enqueue("t", stored)

    assert (first.created, second.created) == (True, False)


def test_a_batch_may_mix_clear_sealed_and_stored_payloads(
    database_url: str, committed: Committed, seals: Seals
) -> None:
    clear = Terms("", ring=True, payload_limit=1000)
    sealing = Terms("", ring=True, payload_limit=1000, seals=seals)
    location = f"client/_/x#sha256={'0' * 64}&size=1"
    asks = [
        ask_for(request, terms, now=NOW)
        for request, terms in (
            (NewTask("t", 'clear "\\'), clear),
            (NewTask("t", "sealed", idempotency_key="k"), sealing),
            (NewTask("t", StoredPayload.offered(location, "")), sealing),
        )
    ]

    with psycopg.connect(conninfo(database_url)) as connection:
        run(connection, submission_of_many(asks, sealing, None))

    by_id = {row[0]: row for row in committed(KEPT)}
    first, second, third = (by_id[ask.id] for ask in asks)
    assert first[2:] == ('clear "\\', None, None)
    assert (second[2], opened(seals, second)) == (None, b'"sealed"')
    assert third[2:] == (None, None, location)
