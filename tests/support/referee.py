"""The referee: triggers that note who took and ended which lease, and every edge of a status.

What it notes commits with what it saw, so that its book is the history as the database knows it.
``Referee.verdict()`` reads it and says what must not have happened.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from taskbell.shared.database import conninfo

REAPER: Final = "taskbell maintenance"
FINAL: Final = {"COMPLETED", "FAILED", "CANCELLED"}
EDGES: Final = {
    (None, "PENDING"),
    ("PENDING", "IN_PROGRESS"),
    ("RETRYING", "IN_PROGRESS"),
    ("PENDING", "CANCELLED"),
    ("RETRYING", "CANCELLED"),
    *(("IN_PROGRESS", status) for status in (*FINAL, "PENDING", "RETRYING")),
}

_SCHEMA = """
CREATE SCHEMA referee;
CREATE TABLE referee.note (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    txid text NOT NULL DEFAULT pg_current_xact_id()::text,
    who text NOT NULL DEFAULT current_setting('application_name'),
    task_id uuid NOT NULL, what text NOT NULL,
    old text, new text, attempt integer NOT NULL, worker_id text, expires_at timestamptz
);
CREATE FUNCTION referee.see_task() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO referee.note (task_id, what, old, new, attempt)
    VALUES (NEW.id, 'edge', CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, NEW.status,
            NEW.attempt_count);
    RETURN NULL;
END $$;
CREATE FUNCTION referee.see_lease() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    seen taskbell.lease;
BEGIN
    IF TG_OP = 'INSERT' THEN seen := NEW; ELSE seen := OLD; END IF;
    INSERT INTO referee.note (task_id, what, attempt, worker_id, expires_at)
    VALUES (seen.task_id, CASE TG_OP WHEN 'INSERT' THEN 'taken' WHEN 'DELETE' THEN 'ended'
                                     ELSE 'changed hands' END,
            seen.attempt, seen.worker_id, seen.expires_at);
    RETURN NULL;
END $$;
CREATE TRIGGER born AFTER INSERT ON taskbell.task
    FOR EACH ROW EXECUTE FUNCTION referee.see_task();
CREATE TRIGGER edge AFTER UPDATE OF status ON taskbell.task
    FOR EACH ROW EXECUTE FUNCTION referee.see_task();
CREATE TRIGGER held AFTER INSERT OR DELETE ON taskbell.lease
    FOR EACH ROW EXECUTE FUNCTION referee.see_lease();
CREATE TRIGGER fence AFTER UPDATE ON taskbell.lease FOR EACH ROW
    WHEN ((OLD.task_id, OLD.attempt, OLD.worker_id)
          IS DISTINCT FROM (NEW.task_id, NEW.attempt, NEW.worker_id))
    EXECUTE FUNCTION referee.see_lease();
"""

_DELAYS = """
SELECT CAST(extract(epoch FROM note.at - note.expires_at) AS float8) AS reaped,
       CAST(extract(epoch FROM run.at - note.expires_at) AS float8) AS started
FROM referee.note JOIN acceptance.run
     ON run.task_id = note.task_id AND run.attempt = note.attempt + 1
WHERE note.what = 'ended' AND note.who = %s
"""


@dataclass
class Verdict:
    """What the book says."""

    violations: list[str] = field(default_factory=list[str])
    tasks: int = 0
    attempts: int = 0
    settlements: int = 0
    """Leases ended by their holders: the settlements that were accepted."""
    reaped: int = 0


class Referee:
    """The triggers in one database, and the book they write."""

    def __init__(self, url: str) -> None:
        """Install the triggers, before anybody enqueues."""
        self._url = url
        with psycopg.connect(conninfo(url)) as connection:
            connection.execute(_SCHEMA.encode())

    def notes(self, task_ids: Sequence[UUID]) -> list[Any]:
        """What happened to these, by task and then in the order in which it happened."""
        with psycopg.connect(conninfo(self._url), row_factory=namedtuple_row) as connection:
            query = "SELECT * FROM referee.note WHERE task_id = ANY (%s) ORDER BY task_id, seq"
            return connection.execute(query, (list(task_ids),)).fetchall()

    def delays(self) -> list[Any]:
        """How late after its timeout, in seconds, a lease was ``reaped`` and its task ``started``.

        Of reaped leases whose tasks have started again, that is.
        """
        with psycopg.connect(conninfo(self._url), row_factory=namedtuple_row) as connection:
            return connection.execute(_DELAYS, (REAPER,)).fetchall()

    def verdict(self, task_ids: Sequence[UUID]) -> Verdict:
        """Judge everything that happened to these so far."""
        verdict = Verdict()
        for task_id, of_task in groupby(self.notes(task_ids), key=lambda note: note.task_id):
            notes = list(of_task)
            ended = [note for note in notes if note.what == "ended"]
            reaped = sum(note.who == REAPER for note in ended)
            verdict.tasks += 1
            verdict.attempts += sum(note.what == "taken" for note in notes)
            verdict.reaped += reaped
            verdict.settlements += len(ended) - reaped
            for look in (_wrong_edges, _wrong_holdings, _wrong_leases, _without_lease):
                verdict.violations += [f"{task_id}: {each}" for each in look(notes)]
        return verdict


def _wrong_edges(notes: Sequence[Any]) -> Iterator[str]:
    status = None
    for note in notes:
        if note.what == "edge":
            if note.old in FINAL:
                yield f"{note.old} was final and became {note.new}"
            elif (note.old, note.new) not in EDGES:
                yield f"{note.old} became {note.new}"
            if note.old != status:
                yield f"was {status} and left {note.old}"
            status = note.new


def _wrong_holdings(notes: Sequence[Any]) -> Iterator[str]:
    """Holders follow one another, each with the next attempt, and none is ended twice."""
    holder, attempt = None, 0
    for note in notes:
        fence = note.attempt, note.worker_id
        if note.what == "taken":
            if holder is not None:
                yield f"{fence} took it while {holder} held it"
            if note.attempt != attempt + 1:
                yield f"attempt {note.attempt} came after attempt {attempt}"
            holder, attempt = fence, note.attempt
        elif note.what == "ended":
            if holder != fence:
                yield f"the lease of {fence} ended while {holder} held it"
            holder = None


def _wrong_leases(notes: Sequence[Any]) -> Iterator[str]:
    for note in notes:
        fence = note.attempt, note.worker_id
        if note.what == "changed hands":
            yield f"the lease of {fence} changed hands"
        elif note.what == "ended" and note.who == REAPER and note.at < note.expires_at:
            yield f"the lease of {fence} was reaped before its timeout"


def _without_lease(notes: Sequence[Any]) -> Iterator[str]:
    """To begin is to take a lease in the same transaction, to stop is to end it."""
    seen = {(note.what, note.txid, note.attempt) for note in notes}
    for note in notes:
        if note.what == "edge" and note.new == "IN_PROGRESS":
            if ("taken", note.txid, note.attempt) not in seen:
                yield f"attempt {note.attempt} began without a lease"
        elif (
            note.what == "edge"
            and note.old == "IN_PROGRESS"
            and ("ended", note.txid, note.attempt) not in seen
        ):
            yield f"attempt {note.attempt} became {note.new} without ending its lease"
