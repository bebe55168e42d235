"""The look that the keeper takes between its beats: cancellations to tell, progress to write.

A beat comes only with every third of a lease, which may be hours; whoever cancels a task, or wants
to know how far it is, waits no longer than a second.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import Connection

from taskbell.consumer.leases import Lease
from taskbell.shared.database import AWAY
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer
from taskbell.shared.ids import WorkerId
from taskbell.shared.outage import Outage
from taskbell.shared.statements import lease as statements

_SECONDS = 0.5
_EARLIER = 0.1  # so that workers started together do not ask together


class Look:
    """Looks each half second; for one thread."""

    def __init__(
        self,
        worker_id: WorkerId,
        observe: Observer,
        outage: Outage,
        tell_cancelled: Callable[[Lease], None],
    ) -> None:
        """``outage``: what the keeper has told of its connection, which this uses as well."""
        self._worker_id = worker_id
        self._outage = outage
        self._away = False
        self._refused = Outage("look", observe)
        self._tell_cancelled = tell_cancelled
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether it is time for the next."""
        return time.monotonic() >= self._next

    def postpone(self) -> None:
        """Take the next one half a second from now."""
        pause = _SECONDS - random.uniform(0, _EARLIER)  # noqa: S311 - jitter
        self._next = time.monotonic() + pause

    def take(self, opened: Callable[[], Connection[Any]], held: Sequence[Lease]) -> None:
        """Look on the connection that ``opened`` gives; what fails is tried at the next look."""
        self.postpone()
        try:
            connection = opened()
            self._tell(connection, held)
            self._write(connection, held)
        except (DatabaseAway, *AWAY) as error:
            self._away = True
            self._outage.lost(error)
        except psycopg.Error as error:
            self._refused.lost(error)
        else:
            self._refused.found()
            if self._away:  # else it is for the beats to say: they may be refused meanwhile
                self._away = False
                self._outage.found()

    def _tell(self, connection: Connection[Any], held: Sequence[Lease]) -> None:
        parameters = {"worker_id": self._worker_id}
        rows = connection.execute(statements.CANCELLED.for_psycopg, parameters).fetchall()
        asked = {(row.task_id, row.attempt) for row in rows}
        for each in held if asked else ():
            if (each.task_id, each.attempt) in asked and not each.told.cancelled:
                self._tell_cancelled(each)

    def _write(self, connection: Connection[Any], held: Sequence[Lease]) -> None:
        # Handlers go on saying: what counts as written is the very text that was sent.
        news = [each for each in held if each.told.progress is not each.told.written]
        said = {each: each.told.progress for each in news}
        unwritten = {each: text for each, text in said.items() if text is not None}
        if not unwritten:
            return
        parameters = {
            "task_ids": [each.task_id for each in unwritten],
            "attempts": [each.attempt for each in unwritten],
            "progress": list(unwritten.values()),
            "worker_id": self._worker_id,
        }
        rows = connection.execute(statements.PROGRESS.for_psycopg, parameters).fetchall()
        written = {(row.task_id, row.attempt) for row in rows}
        for each, text in unwritten.items():
            if (each.task_id, each.attempt) in written:
                each.told.written = text
