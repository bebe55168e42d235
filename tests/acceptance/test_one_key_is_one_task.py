"""One idempotency key is one task, however many ask at once and whichever process they ask."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest

from services.guarded import Port
from support.fleet import Fleet, open_fleet
from support.web import Answer, Caller, new_key

AT_ONCE = 50
PROCESSES = 3
ROUNDS = 4


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Processes of the HTTP interface alone."""
    yield from open_fleet(tmp_path, database_url, None)


@pytest.fixture
def callers(fleet: Fleet) -> Iterator[list[Caller]]:
    """As many processes as can be called, and one key for all of them."""
    key = new_key(fleet.database_url, "shop", "submit", "read")
    with ExitStack() as held:
        ports = [Port() for _ in range(PROCESSES)]
        for number, port in enumerate(ports):
            held.callback(port.release)
            fleet.environment["TASKBELL_API_PORT"] = str(port)
            fleet.launch(f"api-{number}", "taskbell.producer.api")
        for number in range(PROCESSES):
            fleet.wait_for_event(f"api-{number}", "role_started")
        yield [Caller(port.number, key) for port in ports]


def test_fifty_parallel_first_uses_are_one_task_and_fifty_equal_answers(
    callers: list[Caller], fleet: Fleet
) -> None:
    for turn in range(ROUNDS):
        body = {"type": "mail", "payload": {"to": turn}}
        answers = _together(callers, body, f"order-{turn}")

        assert Counter(each.status for each in answers) == {201: 1, 200: AT_ONCE - 1}
        (created,) = [each for each in answers if each.status == 201]
        told = {"task_id": created.json["task_id"], "status": "PENDING"}
        assert [{name: each.json[name] for name in told} for each in answers] == [told] * AT_ONCE
        assert {each.headers["location"] for each in answers} == {created.headers["location"]}
        assert fleet.ask("SELECT count(*) FROM taskbell.task") == turn + 1
        assert fleet.ask("SELECT count(*) FROM taskbell.outbox") == turn + 1


def test_of_different_requests_with_one_key_all_but_the_first_are_refused(
    callers: list[Caller], fleet: Fleet
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        barrier = Barrier(AT_ONCE)

        def submit(number: int) -> Answer:
            barrier.wait()
            body = {"type": "mail", "payload": {"to": number}}
            return callers[number % PROCESSES].ask("POST", "/tasks", body, {"Idempotency-Key": "k"})

        answers = list(threads.map(submit, range(AT_ONCE)))

    assert Counter(each.status for each in answers) == {201: 1, 422: AT_ONCE - 1}
    assert fleet.ask("SELECT count(*) FROM taskbell.task") == 1


def _together(callers: list[Caller], body: object, key: str) -> list[Answer]:
    """All of them at once, spread over the processes."""
    barrier = Barrier(AT_ONCE)

    def submit(number: int) -> Answer:
        barrier.wait()
        return callers[number % len(callers)].ask("POST", "/tasks", body, {"Idempotency-Key": key})

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(submit, range(AT_ONCE)))
