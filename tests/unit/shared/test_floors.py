"""Floors are hints for the queues that are looked at, and no record of all there ever were."""

from taskbell.shared.floors import Known, fresh


def test_a_queue_that_is_not_looked_at_any_more_is_forgotten() -> None:
    gone, mail = Known([], refresh_at=9.0), Known([], refresh_at=10.5)

    assert fresh({"gone": gone, "mail": mail}, now=10.0) == {"mail": mail}
