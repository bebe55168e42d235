"""Whatever a handler raises can be described, bounded and stored."""

import pytest

from taskbell.consumer.diagnosis import diagnose
from taskbell.shared.limits import ERROR_BYTES, TRACEBACK_BYTES


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raised(error: BaseException) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - any exception is the point
        raise error
    return caught.value


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    raise ValueError("deep")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a NUL \x00 and a surrogate \ud800"),
        ValueError("x" * 50_000_000),
        Mute(),
        ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
        SystemExit(3),
        KeyError("k"),
    ],
)
def test_any_exception_is_described_in_bounds(error: BaseException) -> None:
    diagnosis = diagnose(raised(error))

    assert len(diagnosis.error.encode()) <= ERROR_BYTES
    assert len(diagnosis.traceback.encode()) <= TRACEBACK_BYTES
    assert "\x00" not in diagnosis.error + diagnosis.traceback
    assert diagnosis.error_class.endswith(type(error).__qualname__)


def test_one_that_cannot_describe_itself_says_so() -> None:
    assert "Mute whose text could not be made: RuntimeError" in diagnose(raised(Mute())).error


def test_failures_of_one_cause_share_a_fingerprint_whatever_their_text() -> None:
    first, second = diagnose(raised(ValueError("order 1"))), diagnose(raised(ValueError("order 2")))

    assert first.fingerprint == second.fingerprint
    assert diagnose(raised(TypeError("order 1"))).fingerprint != first.fingerprint


def test_a_recursion_is_described() -> None:
    with pytest.raises(ValueError, match="deep") as caught:
        deep(500)

    assert "deep" in diagnose(caught.value).traceback


def test_a_group_tells_what_it_holds() -> None:
    diagnosis = diagnose(raised(ExceptionGroup("several", [ValueError("one"), TypeError("two")])))

    assert "ValueError: one; TypeError: two" in diagnosis.error
    assert "behind it:\nTypeError: two" in diagnosis.traceback


def test_what_caused_an_exception_is_kept() -> None:
    error = raised(RuntimeError("not posted"))
    error.__cause__ = raised(ConnectionError("the ledger is closed"))

    assert "ConnectionError: the ledger is closed" in diagnose(error).traceback


def test_an_exception_that_is_its_own_cause_is_told_once() -> None:
    error = raised(ValueError("round"))
    error.__cause__ = error

    assert diagnose(error).traceback.count("ValueError: round") == 1
