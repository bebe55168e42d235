"""Many requests cut into few statements, in an order that neither deadlocks nor breaks a line."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from uuid import UUID

from taskbell.producer.ask import Ask, ask_for
from taskbell.producer.new_task import NewTask
from taskbell.producer.submission import (
    Enqueued,
    Row,
    Rows,
    Submission,
    admitted,
    answer,
    submission_of_many,
)
from taskbell.producer.terms import Terms
from taskbell.producer.typed_task import TypedTask
from taskbell.shared.errors import InvalidTask

CHUNK_TASKS = 2_000
"""Most tasks in one statement; 1 000 to 5 000 were measured to cost the same for each task."""

CHUNK_CHARACTERS = 8 * 1024 * 1024
"""Most payload in one statement; far below what a Postgres parameter may hold."""


class Batch:
    """Requests on their way: run each of ``submissions``, ``note`` its rows, take ``answers``.

    Making it validates everything and raises ``InvalidTask`` with the place of the first request
    that is refused (``tasks[7].payload.price``). ``LookupError``: an owner's key is not known yet.
    """

    def __init__(
        self,
        tasks: Iterable[NewTask | TypedTask],
        terms: Terms,
        traceparent: str | None,
        now: datetime,
    ) -> None:
        self._terms = terms
        self._traceparent = traceparent
        self._requests: list[NewTask] = []
        self._asks: list[Ask] = []
        for place, task in enumerate(tasks):
            request, ask = _validated(place, task, terms, now)
            self._requests.append(request)
            self._asks.append(ask)
        self._rows: dict[int, Row] = {}

    def submissions(self) -> Iterator[tuple[Sequence[int], Submission]]:
        """Give the statements in the order in which they must run, with the places they serve."""
        for places in _chunks(self._asks):
            asks = [self._asks[place] for place in places]
            yield places, submission_of_many(asks, self._terms, self._traceparent)

    def note(self, places: Sequence[int], rows: Rows) -> None:
        """Take what a submission answered; raises ``QueueFull`` and ``RateLimited``."""
        seen: set[UUID] = set()
        asked = ((self._asks[place].owner_id, self._asks[place].queue) for place in places)
        answered = zip(places, admitted(rows, asked, self._terms), strict=True)
        for place, (known_id, created, same_request, rung) in answered:
            task_id = known_id or self._asks[place].id
            # An id given twice is born once, though both its rows find it born.
            self._rows[place] = (task_id, created and task_id not in seen, same_request, rung)
            if created:
                seen.add(task_id)

    def answers(self) -> list[Enqueued]:
        """Return one answer for each request, in the caller's order.

        Raises ``IdempotencyConflict`` for the first request whose key was used for another.
        """
        return [
            answer(request, self._rows[at], self._terms)
            for at, request in enumerate(self._requests)
        ]


def _validated(place: int, task: object, terms: Terms, now: datetime) -> tuple[NewTask, Ask]:
    try:
        request = NewTask.of(_complete(task))
        return request, ask_for(request, terms, now)
    except InvalidTask as error:
        field = f"tasks[{place}].{error.field}".rstrip(".")
        raise InvalidTask(field, error.problem) from error


def _complete(task: object) -> NewTask | TypedTask:
    if isinstance(task, NewTask | TypedTask):
        return task
    raise InvalidTask("", f"must be a NewTask or a TypedTask, not {type(task).__name__}")


def _chunks(asks: Sequence[Ask]) -> Iterator[list[int]]:
    """Cut the places of the requests into those of each statement, in the caller's order."""
    chunk: list[int] = []
    characters = 0
    for place in _ordered(asks):
        size = asks[place].weight
        full = len(chunk) == CHUNK_TASKS or characters + size > CHUNK_CHARACTERS
        if chunk and full:
            yield sorted(chunk)
            chunk, characters = [], 0
        chunk.append(place)
        characters += size
    if chunk:
        yield sorted(chunk)


def _ordered(asks: Sequence[Ask]) -> list[int]:
    """Put the keys in one order for all batches, and keep the order of what stands in line.

    Two batches that lock the same new keys in opposite order, a statement each, would deadlock. A
    key with a partition key stays where it is: the order of its line comes first.
    """

    def rank(place: int) -> tuple[bool, tuple[bytes, str]]:
        ask = asks[place]
        if ask.key_hash is None or ask.partition_key is not None:
            return True, (b"", "")
        return False, ask.rank

    return sorted(range(len(asks)), key=rank)
