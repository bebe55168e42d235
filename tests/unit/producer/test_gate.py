"""Whoever was seen to have no rate is not asked about for five seconds."""

from datetime import UTC, datetime

from taskbell.producer import NewTask
from taskbell.producer.ask import ask_for
from taskbell.producer.birth import births
from taskbell.producer.gate import UNRATED_SECONDS, Gate, Unrated
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
KNOWING = births(ring=True, kept=False, gate=Gate.QUEUE)
PASSED = (None, True, True, 0, None)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def terms_by(clock: Clock, gate: Gate = Gate.QUEUE_AND_RATE) -> Terms:
    return Terms("mine", ring=True, payload_limit=1000, gate=gate, unrated=Unrated(clock))


def one(terms: Terms, owner: str) -> Statement:
    return submission_of_one(NewTask("t", owner_id=owner), terms, None, NOW).statement


def many(terms: Terms, *owners: str) -> Submission:
    asks = [ask_for(NewTask("t", owner_id=owner), terms, NOW) for owner in owners]
    return submission_of_many(asks, terms, None)


def test_an_owner_without_a_rate_is_asked_about_each_five_seconds() -> None:
    clock = Clock()
    terms = terms_by(clock)

    first = one(terms, "o")
    admitted([(*PASSED, False)], ["o"], terms)
    second = one(terms, "o")
    clock.now += UNRATED_SECONDS

    assert (first, second) == (ASKING.one, KNOWING.one)
    assert one(terms, "o") is ASKING.one


def test_an_owner_with_a_rate_is_asked_about_each_time() -> None:
    terms = terms_by(Clock())
    admitted([(*PASSED, True), (*PASSED, False)], ["rated", "free"], terms)

    assert one(terms, "rated") is ASKING.one
    assert one(terms, "free") is KNOWING.one


def test_a_batch_is_asked_about_unless_all_its_owners_are_known() -> None:
    terms = terms_by(Clock())
    terms.unrated.note("a")
    terms.unrated.note("b")

    assert many(terms, "a", "b").statement is KNOWING.many
    assert many(terms, "a", "c", "b").statement is ASKING.many


def test_memory_has_a_bound() -> None:
    unrated = Unrated(Clock())
    for number in range(10_001):
        unrated.note(str(number))

    assert not unrated.covers(["0"])
    assert unrated.covers(["10000"])


def test_who_asks_for_the_queue_alone_notes_nothing() -> None:
    terms = terms_by(Clock(), Gate.QUEUE)

    assert admitted([PASSED], ["o"], terms) == [PASSED[:4]]
    assert not terms.unrated.covers(["o"])
