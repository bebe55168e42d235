"""The crash points cost next to nothing where nobody listens for them, which is everywhere else."""

from timeit import repeat

from support.proof import Proof
from taskbell.shared.logs import log_to_stderr
from taskbell.shared.points import BEFORE_CLAIM

REPORTS = 100_000
MOST_MICROSECONDS = 10.0


def test_a_point_that_nobody_listens_for_is_reported_in_microseconds(proof: Proof) -> None:
    """The observer of a normal process is told of a point over and over, and timed."""
    observe = log_to_stderr("info", "json")

    seconds = min(repeat(lambda: observe(BEFORE_CLAIM), number=REPORTS, repeat=3)) / REPORTS

    proof(f"{seconds * 1e6:.2f} µs, once for each batch")
    assert seconds * 1e6 < MOST_MICROSECONDS
