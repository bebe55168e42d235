"""What the command line shows of sealed content, with the keys and without them."""

import asyncio
import os
import subprocess
import sys
from typing import Any
from uuid import UUID

import pytest

from support.commands import call, told
from support.hands import hands
from support.keyrings import seals_of
from support.sealed import CANARY, FOREIGN, OLD, erase_data_key, give_data_key, make_sealed, seal_of
from support.workers import Reports, rows, working
from taskbell.consumer import Consumer, Context, Reject
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.sealing import Kind


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

    assert set((await in_thread(shown, task_id)).values()) == {"(sealed)"}


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
