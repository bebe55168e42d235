"""What the command line shows of sealed content, with the keys and without them."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any
from uuid import UUID

import pytest

from support import sealed_tasks
from support.commands import call, told
from support.factories import make_tasks
from support.hands import hands
from support.keyrings import seals_of
from support.sealed import CANARY, FOREIGN, OLD, erase_data_key, give_data_key, make_sealed, seal_of
from support.stores import Stand
from support.workers import Reports, rows, working
from taskbell.consumer import Consumer, Context, Reject
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.sealing import Kind

NO_KEYS = "(sealed: set TASKBELL_SEAL_KEYS or TASKBELL_SEAL_KEYS_FILE to see it)"


async def failed(url: str, reports: Reports, owner_id: str = "") -> UUID:
    """A task that failed with its payload in its error."""
    app = Consumer()

    @app.handler("charge")
    async def charge(_context: Context, payload: dict[str, str]) -> None:
        raise Reject(f"no such card: {payload['card']}")

    seals = seals_of("k1")
    if owner_id:
        _, seals = await give_data_key(url, owner_id)
    task_id = make_sealed(url, {"card": CANARY}, seals=seals, type="charge", owner_id=owner_id)
    async with working(app, url, reports, seal_keys=OLD):
        await reports.settled(task_id, status="FAILED")
    return task_id


def shown(task_id: UUID) -> dict[str, Any]:
    """Every text that a command tells of a task."""
    task = told("tasks", "show", task_id, "--payload")
    letter = told("dead-letters", "show", task_id)
    (listed,) = told("dead-letters", "list")
    (cause,) = told("dead-letters", "causes")
    return {
        "payload": task["payload"],
        "error": task["error_message"],
        "letter": letter["last_error"],
        "listed": listed["last_error"],
        "cause": cause["last_error"],
        "attempt": letter["history"][-1]["error"],
        "traceback": letter["history"][-1]["traceback"],
    }


@pytest.mark.parametrize("owner_id", ["", "Ada"])
async def test_with_the_keys_sealed_content_is_shown(
    url: str, reports: Reports, monkeypatch: pytest.MonkeyPatch, owner_id: str
) -> None:
    task_id = await failed(url, reports, owner_id)
    monkeypatch.setenv("TASKBELL_SEAL_KEYS", OLD)

    seen = await in_thread(shown, task_id)

    assert seen.pop("payload") == {"card": CANARY}
    assert "File " in seen.pop("traceback")
    assert set(seen.values()) == {f"no such card: {CANARY}"}


async def test_without_the_keys_it_is_said_to_be_sealed(url: str, reports: Reports) -> None:
    task_id = await failed(url, reports)

    seen = await in_thread(shown, task_id)

    assert seen.pop("payload") == NO_KEYS
    assert set(seen.values()) == {"(sealed)"}


async def test_with_other_keys_or_an_erased_one_the_reason_is_told(
    url: str, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await failed(url, reports, "Ada")
    monkeypatch.setenv("TASKBELL_SEAL_KEYS", FOREIGN)
    foreign = set((await in_thread(shown, task_id)).values())
    erase_data_key(url, "Ada")
    monkeypatch.setenv("TASKBELL_SEAL_KEYS", OLD)
    erased = set((await in_thread(shown, task_id)).values())

    assert (foreign, erased) == ({"(unreadable: key unknown)"}, {"(unreadable: erased)"})


async def stored(url: str, stand: Stand, body: bytes) -> tuple[UUID, str]:
    """A task of nobody's with this object as its payload."""
    (task_id,) = make_tasks(url)
    location = await stand.storage.put("payload", task_id, "", body)
    kept = "UPDATE taskbell.task SET payload = NULL, payload_location = %s WHERE id = %s"
    rows(url, kept, location, task_id)
    return task_id, location


def payload_shown(task_id: UUID) -> Any:
    return told("tasks", "show", task_id, "--payload")["payload"]


async def test_a_stored_payload_is_fetched_and_opened(
    url: str, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear, _ = await stored(url, stand, b'{"order": 7}')
    async with hands(url) as operator:
        sealed = await sealed_tasks.make_sealed(
            url, operator.connection, seals_of("k1"), storage=stand.storage
        )
    monkeypatch.setenv("TASKBELL_STORAGE_URL", stand.url)
    without_keys = await in_thread(payload_shown, sealed)
    monkeypatch.setenv("TASKBELL_SEAL_KEYS", OLD)

    assert await in_thread(payload_shown, clear) == {"order": 7}
    assert await in_thread(payload_shown, sealed) == json.loads(sealed_tasks.PAYLOAD)
    assert without_keys == NO_KEYS


async def test_a_stored_payload_that_cannot_be_had_is_named_with_the_reason(
    url: str, file_stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, location = await stored(url, file_stand, b"{}")
    strange, where = await stored(url, file_stand, b"not JSON")
    unset = await in_thread(payload_shown, task_id)
    monkeypatch.setenv("TASKBELL_STORAGE_URL", file_stand.url)
    no_json = await in_thread(payload_shown, strange)
    for each in (location, where):
        file_stand.remove(each.partition("#")[0])
    missing = await in_thread(payload_shown, task_id)
    file_stand.remove_root()
    wrong = await in_thread(call, "tasks", "show", task_id, "--payload")

    assert unset == f"(at {location}: set TASKBELL_STORAGE_URL to see it)"
    assert no_json == f"(at {where}: it is not JSON, or nested too deeply)"
    assert missing == "(unreadable: missing)"
    assert wrong.exit_code == 2
    assert wrong.stderr == "TASKBELL_STORAGE_URL: file:// names no directory that is there\n"


async def test_a_stored_payload_whose_storage_is_away_is_named_with_the_reason(
    url: str, s3_stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, location = await stored(url, s3_stand, b"{}")
    s3_stand.remove(location.partition("#")[0])
    s3_stand.remove_root()
    monkeypatch.setenv("TASKBELL_STORAGE_URL", s3_stand.url)

    seen = await in_thread(payload_shown, task_id)

    assert seen.startswith(f"(at {location}: look: ")
    assert s3_stand.environment["AWS_SECRET_ACCESS_KEY"] not in seen


async def test_plain_texts_stand_next_to_sealed_ones(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKBELL_SEAL_KEYS", OLD)
    task_id = make_sealed(url, {}, max_attempts=2)
    seal = seal_of(seals_of("k1"), task_id)
    async with hands(url) as worker:
        (lease,) = await worker.claim_ids([task_id])
        sealed = seal.seal_text(Kind.ERROR, f"no such card: {CANARY}")
        await worker.settle(task_id, lease.attempt, "retry", error=sealed)
        await worker.claim_ids([task_id])
        rows(url, "UPDATE taskbell.lease SET expires_at = clock_timestamp()")
        await Reap().run_once(worker.connection)

    found = await in_thread(told, "dead-letters", "show", task_id)

    assert [each["error"] for each in found["history"]] == [
        f"no such card: {CANARY}", "the lease expired"
    ]  # fmt: skip
    assert found["last_error"] == "the lease expired"


def test_bad_keys_end_a_command_in_one_line_that_does_not_quote_them(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del url
    monkeypatch.setenv("TASKBELL_SEAL_KEYS", f"k1:{CANARY}")

    result = call("dead-letters", "list")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert CANARY not in result.output


def test_bad_keys_end_a_consumer_in_one_line_that_does_not_quote_them(url: str) -> None:
    environment = {
        **os.environ, "TASKBELL_DATABASE_URL": url, "TASKBELL_SEAL_KEYS": f"k1:{CANARY}"
    }  # fmt: skip
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    ended = subprocess.run(
        [sys.executable, "-m", "taskbell.consumer", "support.isolated:app"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "entry 1 of the keys that seal" in ended.stderr
    assert CANARY not in ended.stderr


async def in_thread(verb: Any, *arguments: object) -> Any:
    """Call what runs an event loop of its own."""
    return await asyncio.to_thread(verb, *arguments)
