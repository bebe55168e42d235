"""The producer process: customers order, some change their mind, some ask twice.

Appends one line to its journal after each order that committed or rolled back; the journal, not
the database, is what the outcome is compared with.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.orm import Session, sessionmaker

from demo.shop import place_order
from taskbell.producer import Enqueued, Producer


class RepeatDiffersError(Exception):
    """Asking twice gave other tasks than asking once."""


def main(database_url: str, journal: Path, wanted: int) -> None:
    """Place orders until ``wanted`` tasks were accepted."""
    sessions = sessionmaker(create_engine(database_url))
    producer = Producer()
    accepted = number = 0
    with journal.open("a", encoding="utf-8", buffering=1) as lines:
        while accepted < wanted:
            number += 1
            both = wanted - accepted > 1
            if _changes_mind(number):
                handed = _leave(sessions, producer, number)
                lines.write(_line("rolled_back", number, handed))
                continue
            handed = _order(sessions, producer, number, receipt=both)
            lines.write(_line("accepted", number, handed))
            accepted += len(handed)
            if _asks_twice(number):
                _repeat(sessions, producer, number, handed)


def _changes_mind(number: int) -> bool:
    return number % 9 == 4  # noqa: PLR2004 - one in nine


def _asks_twice(number: int) -> bool:
    return number % 7 == 2  # noqa: PLR2004 - one in seven


def _order(
    sessions: sessionmaker[Session], producer: Producer, number: int, *, receipt: bool
) -> list[Enqueued]:
    with sessions.begin() as session:
        return place_order(session, producer, number, receipt=receipt)


def _leave(sessions: sessionmaker[Session], producer: Producer, number: int) -> list[Enqueued]:
    with sessions() as session:
        handed = place_order(session, producer, number)
        session.rollback()
    return handed


def _repeat(
    sessions: sessionmaker[Session], producer: Producer, number: int, first: Sequence[Enqueued]
) -> None:
    again = _order(sessions, producer, number, receipt=len(first) > 1)
    if [each.task_id for each in again] != [each.task_id for each in first]:
        raise RepeatDiffersError(f"order {number}")


def _line(fate: str, number: int, handed: Sequence[Enqueued]) -> str:
    task_ids = [str(each.task_id) for each in handed]
    return json.dumps({"fate": fate, "order": number, "task_ids": task_ids}) + "\n"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
