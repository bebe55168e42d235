"""On a quiet night every handler starts once, however many relays and consumers there are."""

import pytest

from support.fleet import Fleet


@pytest.mark.timeout(600)
def test_two_relays_and_three_consumers_run_five_thousand_tasks_once_each(fleet: Fleet) -> None:
    for number in (1, 2):
        fleet.start_relay(f"relay-{number}")
    for number in (1, 2, 3):
        fleet.start_consumer(f"consumer-{number}")

    fleet.enqueue(5000)
    fleet.wait_for_completion(5000)

    assert fleet.runs() == 5000
    assert fleet.ask("SELECT count(DISTINCT task_id) FROM acceptance.run") == 5000
    assert fleet.ask("SELECT max(attempt) FROM acceptance.run") == 1
    assert fleet.ask("SELECT count(DISTINCT pid) FROM acceptance.run") == 3


def test_the_roles_stop_in_good_order(fleet: Fleet) -> None:
    fleet.start_relay()
    fleet.start_consumer()
    if fleet.behind_pooler:  # there is no LISTEN through it
        fleet.wait_for_event("relay", "doorbell_deaf")
    fleet.enqueue(20)
    fleet.wait_for_completion(20)

    assert fleet.stop("consumer") == 0
    assert fleet.stop("relay") == 0
    assert fleet.ask("SELECT count(*) FROM taskbell.bell") == 0
    assert fleet.ask("SELECT count(*) FROM taskbell.worker") == 0
