"""The commands of the keys that seal: what they print, refuse and leave behind."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from typer.testing import Result

from support import commands
from support.hands import hands
from support.keyrings import ring, seals_of
from support.sealed_tasks import ALL, content_of, make_sealed
from support.stores import Stand
from support.workers import rows
from taskbell.shared.sealing.keyring import Ring
from taskbell.shared.storage.location import owner_segment

UseRing = Callable[..., None]


@pytest.fixture
def use_ring(monkeypatch: pytest.MonkeyPatch) -> UseRing:
    """Set the ring by its ids."""

    def use(*key_ids: str) -> None:
        monkeypatch.setenv("TASKBELL_SEAL_KEYS", ring(*key_ids))

    return use


def call(*arguments: object, code: int = 0) -> Result:
    result = commands.call("keys", *arguments)
    assert result.exit_code == code, result.output
    return result


told = partial(commands.told, "keys")


def test_a_new_key_is_one_the_ring_takes() -> None:
    named, dated = (call("new-seal-key", *each).stdout.strip() for each in (["--id", "k1"], []))

    assert Ring.read(f"{named},{dated}").active == "k1"
    assert named != call("new-seal-key", "--id", "k1").stdout.strip()


@pytest.mark.parametrize(
    "key_id", ["", "mine:1", "o-mine", "#mine", "a,b:c", "x" * 33, "schlüssel"]
)
def test_a_key_that_the_ring_refuses_is_not_made(key_id: str) -> None:
    refused = call("new-seal-key", "--id", key_id, code=2)

    assert refused.stdout == ""
    assert "id" in refused.stderr


async def _sealed(url: str, key_id: str, owner: str = "") -> Any:
    async with hands(url, "operator") as ours:
        return await make_sealed(url, ours.connection, seals_of(key_id), owner)


async def _reads_all(url: str, key_id: str, task_id: Any) -> bool:
    async with hands(url, "operator") as ours:
        content = await content_of(url, ours.connection, seals_of(key_id), task_id)
    return (content.payload, content.result, content.texts) == (ALL.payload, ALL.result, ALL.texts)


async def test_resealing_tells_what_it_did_until_nothing_is_left(
    url: str, use_ring: UseRing
) -> None:
    task_id = await _sealed(url, "old")
    use_ring("new", "old")

    first = await _in_thread(told, "reseal", "--actor", "me")
    second = await _in_thread(told, "reseal", "--actor", "me")

    assert (first["tasks"], first["resealed"]) == (1, 6)
    assert "repeat" in first["sentence"]
    assert (second["resealed"], second["sentence"]) == (0, "nothing left to seal")
    assert await _reads_all(url, "new", task_id)


async def test_a_run_that_cannot_read_objects_says_where_to_go_on(
    url: str, use_ring: UseRing, file_stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_ring("new", "old")
    async with hands(url, "operator") as ours:
        await make_sealed(url, ours.connection, seals_of("old"), "", file_stand.storage)

    failed = await _in_thread(call, "reseal", code=1)
    monkeypatch.setenv("TASKBELL_STORAGE_URL", file_stand.url)
    after = failed.stderr.split()[-1]
    done = await _in_thread(told, "reseal", "--after", after)

    assert "TASKBELL_STORAGE_URL" in failed.stderr
    assert (done["tasks"], done["resealed"]) == (1, 6)


def test_without_a_ring_nothing_is_sealed(url: str) -> None:
    del url
    for arguments in (["reseal"], ["owner-key", "create", "alice"]):
        assert "TASKBELL_SEAL_KEYS" in call(*arguments, code=2).stderr


def test_a_ring_that_cannot_be_read_is_refused_without_being_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del url
    monkeypatch.setenv("TASKBELL_SEAL_KEYS", "k1:aHVudGVyMg==")

    assert "aHVudGVyMg" not in call("reseal", code=2).output


def test_an_owner_gets_one_key(url: str, use_ring: UseRing) -> None:
    use_ring("k")

    created = call("owner-key", "create", "alice", "--actor", "me").stdout
    again = call("owner-key", "create", "alice", code=1).stderr
    nameless = call("owner-key", "create", "", code=2).stderr

    ((key_id,),) = rows(url, "SELECT key_id FROM taskbell.data_key")
    assert created.startswith(key_id)
    assert "already" in again
    assert "1 to 200" in nameless


async def test_erasing_warns_of_what_would_stay_readable_and_wants_a_yes(
    url: str, use_ring: UseRing
) -> None:
    use_ring("k")
    await _sealed(url, "k", "alice")
    await _in_thread(call, "owner-key", "create", "alice")

    warned = await _in_thread(call, "owner-key", "erase", "alice", code=2)
    (kept,) = rows(url, "SELECT wrapped FROM taskbell.data_key")
    await _in_thread(call, "reseal", "--owner", "alice")
    bare = await _in_thread(call, "owner-key", "erase", "alice", code=2)
    erased = await _in_thread(call, "owner-key", "erase", "alice", "--yes", "--actor", "me")
    nobody = await _in_thread(call, "owner-key", "erase", "alice", "--yes", code=1)

    assert "6 payloads, results and errors" in warned.stderr
    assert kept.wrapped is not None
    assert "payloads" not in bare.stderr
    assert "erased" in erased.stdout
    assert "no key" in nobody.stderr
    ((wrapped,),) = rows(url, "SELECT wrapped FROM taskbell.data_key")
    assert wrapped is None


async def test_erasing_all_the_same_tells_what_stays_readable(url: str, use_ring: UseRing) -> None:
    use_ring("k")
    await _sealed(url, "k", "alice")
    await _in_thread(call, "owner-key", "create", "alice")

    erased = await _in_thread(call, "owner-key", "erase", "alice", "--yes", code=1)

    assert "is erased" in erased.stdout
    assert "6 payloads, results and errors" in erased.stderr


async def test_objects_that_no_task_names_are_told_and_deleted_on_demand(
    url: str, use_ring: UseRing, file_stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    del url
    use_ring("k")
    await _in_thread(call, "owner-key", "create", "alice")
    places = [f"{kind}/{owner_segment('alice')}/left" for kind in ("client", "payload", "result")]
    for place in places:
        file_stand.write(place, b"{}")

    blind = await _in_thread(call, "owner-key", "erase", "alice", code=2)
    unable = await _in_thread(call, "owner-key", "erase", "alice", "--delete-objects", code=2)
    monkeypatch.setenv("TASKBELL_STORAGE_URL", file_stand.url)
    warned = await _in_thread(call, "owner-key", "erase", "alice", "--delete-objects", code=2)
    assert all(file_stand.holds(place) for place in places), "nothing is deleted without a yes"
    erased = await _in_thread(call, "owner-key", "erase", "alice", "--yes", "--delete-objects")

    assert "TASKBELL_STORAGE_URL is not set" in blind.stderr
    assert "TASKBELL_STORAGE_URL" in unable.stderr
    assert "3 objects that no task names" in warned.stderr
    assert "3 objects" in erased.stdout
    assert not any(file_stand.holds(place) for place in places)


async def test_objects_that_stay_readable_are_told_after_an_erasure(
    url: str, use_ring: UseRing, file_stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    del url
    use_ring("k")
    monkeypatch.setenv("TASKBELL_STORAGE_URL", file_stand.url)
    await _in_thread(call, "owner-key", "create", "alice")
    file_stand.write(f"client/{owner_segment('alice')}/left", b"{}")

    erased = await _in_thread(call, "owner-key", "erase", "alice", "--yes", code=1)

    assert "is erased" in erased.stdout
    assert "1 objects that no task names were not sealed by it and stay readable" in erased.stderr


async def _in_thread(verb: Callable[..., Any], *arguments: object, **rest: Any) -> Any:
    """A command runs a loop of its own, which a running one does not allow in its thread."""
    return await asyncio.to_thread(verb, *arguments, **rest)
