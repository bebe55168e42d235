"""Which announced ids are claimed next, and which go back to the broker."""

from taskbell.consumer.announcements import PATIENCE_SECONDS, Announcements
from taskbell.shared.ids import new_task_id

FIVE = [new_task_id() for _ in range(5)]


def test_ids_are_taken_oldest_first_across_announcements() -> None:
    noted = Announcements()
    noted.note(FIVE[:2], "first", now=0)
    noted.note(FIVE[2:], "second", now=0)

    assert noted.take(3).task_ids == FIVE[:3]
    assert noted.take(9).task_ids == FIVE[3:]
    assert not noted


def test_an_announcement_is_finished_when_its_last_id_is_taken() -> None:
    noted = Announcements()
    noted.note(FIVE[:2], "first", now=0)
    noted.note(FIVE[2:], "second", now=0)

    assert [each.handle for each in noted.take(4).finished] == ["first"]
    assert [each.handle for each in noted.take(4).finished] == ["second"]


def test_what_waited_too_long_goes_back_and_the_rest_stays() -> None:
    noted = Announcements()
    noted.note(FIVE[:2], "old", now=0)
    noted.note(FIVE[2:], "new", now=PATIENCE_SECONDS / 2)

    late = noted.give_back(now=PATIENCE_SECONDS)

    assert [each.handle for each in late] == ["old"]
    assert noted.take(9).task_ids == FIVE[2:]


def test_one_that_was_begun_goes_back_whole_too() -> None:
    noted = Announcements()
    noted.note(FIVE, "begun", now=0)
    noted.take(2)

    assert [each.handle for each in noted.give_back(now=PATIENCE_SECONDS)] == ["begun"]
    assert not noted


def test_at_the_end_everything_is_dropped() -> None:
    noted = Announcements()
    noted.note(FIVE, "only", now=0)

    assert [each.handle for each in noted.clear()] == ["only"]
    assert not noted
