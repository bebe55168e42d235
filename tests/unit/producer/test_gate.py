"""What was seen to be free is not asked about again for a while."""

from datetime import UTC, datetime

import pytest

from support.clocks import Clock
from taskbell.producer import NewTask
from taskbell.producer.ask import ask_for
from taskbell.producer.birth import RINGING, births
from taskbell.producer.gate import ROOM_SECONDS, UNRATED_SECONDS, Gate, Seen
from taskbell.producer.submission import (
    Submission,
    admitted,
    submission_of_many,
    submission_of_one,
)
from taskbell.producer.terms import Terms
from taskbell.shared.statement import Statement

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ASKING = births(ring=True, kept=False, gate=Gate.QUEUE_AND_RATE)
QUEUE_ONLY = births(ring=True, kept=False, gate=Gate.QUEUE)
PASSED = (None, True, True, 0, None)
KNOWN = (None, False, True, 0, None)


def terms_by(clock: Clock, gate: Gate = Gate.QUEUE_AND_RATE) -> Terms:
    return Terms("mine", ring=True, payload_limit=1000, gate=gate, seen=Seen(clock))


def one(terms: Terms, owner: str) -> Statement:
    return submission_of_one(NewTask("t", owner_id=owner), terms, None, NOW).statement


def many(terms: Terms, *owners: str) -> Submission:
    asks = [ask_for(NewTask("t", owner_id=owner), terms, NOW) for owner in owners]
    return submission_of_many(asks, terms, None)


def test_an_owner_without_a_rate_is_asked_about_each_five_seconds() -> None:
    clock = Clock()
    terms = terms_by(clock)

    first = one(terms, "o")
    admitted([(*KNOWN, False)], [("o", "default")], terms)
    second = one(terms, "o")
    clock.now += UNRATED_SECONDS

    assert (first, second) == (ASKING.one, QUEUE_ONLY.one)
    assert one(terms, "o") is ASKING.one


@pytest.mark.parametrize("gate", [Gate.QUEUE, Gate.QUEUE_AND_RATE])
def test_a_queue_that_had_room_for_a_new_task_is_asked_about_each_second(gate: Gate) -> None:
    clock = Clock()
    terms = terms_by(clock, gate)

    first = one(terms, "o")
    admitted(
        [(*PASSED, False) if gate is Gate.QUEUE_AND_RATE else PASSED], [("o", "default")], terms
    )
    second = one(terms, "o")
    clock.now += ROOM_SECONDS

    assert first is births(ring=True, kept=False, gate=gate).one
    assert second is RINGING.one
    assert one(terms, "o") is QUEUE_ONLY.one


def test_an_owner_with_a_rate_is_asked_about_each_time() -> None:
    terms = terms_by(Clock())
    asked = [("rated", "default"), ("free", "default")]
    admitted([(*PASSED, True), (*PASSED, False)], asked, terms)

    assert one(terms, "rated") is ASKING.one
    assert one(terms, "free") is RINGING.one


def test_a_batch_is_asked_about_unless_all_its_owners_are_known() -> None:
    terms = terms_by(Clock())
    terms.seen.note_unrated("a")
    terms.seen.note_unrated("b")

    assert many(terms, "a", "b").statement is QUEUE_ONLY.many
    assert many(terms, "a", "c", "b").statement is ASKING.many


def test_memory_has_a_bound() -> None:
    seen = Seen(Clock())
    for number in range(10_001):
        seen.note_room(str(number))

    assert seen.left(Gate.QUEUE, [], ["0"]) is Gate.QUEUE
    assert seen.left(Gate.QUEUE, [], ["10000"]) is Gate.OPEN


def test_who_asks_for_the_queue_alone_notes_no_owner() -> None:
    terms = terms_by(Clock(), Gate.QUEUE)

    assert admitted([KNOWN], [("o", "default")], terms) == [KNOWN[:4]]
    assert terms.seen.left(Gate.QUEUE_AND_RATE, ["o"], []) is Gate.QUEUE_AND_RATE
