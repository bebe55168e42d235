"""The statements that give birth: the plain ones stay as they are."""

from hashlib import sha256
from itertools import product

import pytest

from taskbell.producer import NewTask
from taskbell.producer.ask import Ask
from taskbell.producer.birth import RINGING, SILENT, Births, births
from taskbell.producer.gate import Gate
from taskbell.shared.statement import Statement

WAYS = list(product([True, False], [True, False], Gate))


def texts(born: Births) -> list[Statement]:
    return [born.one, born.one_with_key, born.many, born.many_with_keys]


def test_the_plain_births_are_the_texts_they_were() -> None:
    written = "".join(statement.sql for statement in texts(RINGING) + texts(SILENT))

    # Floors, plans and prepared statements of running services rest on them. If this changes on
    # purpose, the benchmarks of enqueueing have to be run again.
    assert sha256(written.encode()).hexdigest()[:32] == "91f600cbd2baf7f2040c12c74e83b7f6"
    assert RINGING is births(ring=True, kept=False, gate=Gate.OPEN)


@pytest.mark.parametrize(("ring", "kept", "gate"), WAYS)
def test_every_birth_takes_the_fields_of_an_ask(ring: bool, kept: bool, gate: Gate) -> None:  # noqa: FBT001
    born = births(ring=ring, kept=kept, gate=gate)
    fields = {*Ask._fields, "traceparent"}
    key = {"key_hash", "request_hash"}
    elsewhere: set[str] = set() if kept else {"payload_sealed", "payload_location"}

    assert born.one.parameters == born.many.parameters == fields - key - elsewhere
    assert born.one_with_key.parameters == born.many_with_keys.parameters == fields - elsewhere


@pytest.mark.parametrize(("ring", "kept", "gate"), WAYS)
def test_a_birth_looks_at_no_more_than_its_gate_asks(ring: bool, kept: bool, gate: Gate) -> None:  # noqa: FBT001
    for statement in texts(births(ring=ring, kept=kept, gate=gate)):
        assert ("taskbell.queue" in statement.sql) == (gate is not Gate.OPEN)
        assert ("taskbell.rate_limit" in statement.sql) == (gate is Gate.QUEUE_AND_RATE)
        assert ("pg_notify" in statement.sql) == ring


def test_a_payload_is_no_part_of_what_a_request_shows() -> None:
    assert "secret" not in repr(NewTask("t", "secret"))
