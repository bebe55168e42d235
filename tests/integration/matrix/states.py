"""Where a task can be: the states the matrix starts from, put into the tables and read back."""

from dataclasses import dataclass, fields, replace
from typing import Final
from uuid import UUID

from taskbell.shared.database import DedicatedConnection
from taskbell.shared.ids import new_task_id
from taskbell.shared.statement import Statement
from taskbell.shared.statements import audit

WORKER: Final = "w"
"""Who believes to hold the task; a claim is made in the name of its session, ``a`` or ``b``."""
ATTEMPT: Final = 7
"""The attempt that ``w`` believes to be at."""
MAX_ATTEMPTS: Final = 3
FINAL: Final = {"COMPLETED", "FAILED", "CANCELLED"}

_AGE_MS: Final = 2 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Lease:
    """A row of ``lease``."""

    worker: str = WORKER
    attempt: int = ATTEMPT
    expired: bool = False
    asked: bool = False
    """Whether its holder is asked to cancel."""

    def __str__(self) -> str:
        """Give it in a few words."""
        more = [word for word in ("expired", "asked") if getattr(self, word)]
        return " ".join([f"leased to {self.worker}/{self.attempt}", *more])


@dataclass(frozen=True, slots=True)
class State:
    """Everything the tables say of one task; what it may write is one business row and one key."""

    status: str | None = "IN_PROGRESS"
    """None: there is no row."""
    attempt: int = ATTEMPT
    refunded: int = ATTEMPT - 1
    entry: bool = False
    lease: Lease | None = None
    letter: bool = False
    failure: str | None = None
    """The outcome in the ``failure`` row of attempt 7."""
    key: str | None = None
    """``old`` or ``new``: when the dedup key was recorded."""
    written: int = 0
    """Business rows."""
    old: bool = False
    """Whether it ended longer ago than is kept."""
    behind: str | None = None
    """``parked`` or ``head``: the next task of its partition, if it is in one."""

    @property
    def used(self) -> int:
        """Tries used."""
        return self.attempt - self.refunded

    @property
    def held(self) -> bool:
        """Whether the lease is the one that ``w`` believes to hold."""
        lease = self.lease
        return lease is not None and (lease.worker, lease.attempt) == (WORKER, ATTEMPT)

    def __str__(self) -> str:
        """Give it in one line."""
        words = [f"{self.status} {self.attempt} ({self.used} used)" if self.status else "no task"]
        words += ["due"] if self.entry else []
        words += [str(self.lease)] if self.lease else []
        words += ["dead letter"] if self.letter else []
        words += [f"failure {self.failure}"] if self.failure else []
        words += [f"{self.key} key"] if self.key else []
        words += [f"{self.written} written"] if self.written else []
        words += [f"next {self.behind}"] if self.behind else []
        return ", ".join(words)


RUNNING: Final = State(lease=Lease())
WAITING: Final = State("PENDING", attempt=0, refunded=0, entry=True)
DEAD: Final = State("FAILED", refunded=4, letter=True, failure="fail", old=True)

STARTS: Final[dict[str, tuple[State, str]]] = {
    "waiting": (replace(WAITING, behind="parked"), "due, never tried, the head of its partition"),
    "running": (RUNNING, "the lease of w, attempt 7, lives"),
    "cancelling": (
        replace(RUNNING, lease=Lease(asked=True), behind="parked"),
        "its holder is asked to cancel; of a partition",
    ),
    "expired": (replace(RUNNING, lease=Lease(expired=True)), "the lease has run out"),
    "last try": (
        replace(RUNNING, refunded=4, lease=Lease(expired=True), behind="parked"),
        "has run out, and no try is left; of a partition",
    ),
    "taken": (replace(RUNNING, lease=Lease(worker="v")), "the same attempt, of another worker"),
    "taken again": (
        replace(RUNNING, attempt=8, lease=Lease(attempt=8)),
        "a later attempt, of the same worker",
    ),
    "repeated": (replace(RUNNING, key="old"), "its dedup key was recorded long ago"),
    "dead": (DEAD, "failed long ago"),
    "done": (State("COMPLETED", key="old", written=1, old=True), "completed long ago"),
}
"""By name: the state, and what it means."""


PLACE = Statement("""
WITH t0 AS (DELETE FROM taskbell.task), o0 AS (DELETE FROM taskbell.outbox),
l0 AS (DELETE FROM taskbell.lease), d0 AS (DELETE FROM taskbell.dead_letter),
f0 AS (DELETE FROM taskbell.failure), e0 AS (DELETE FROM taskbell.effect),
b0 AS (DELETE FROM public.ledger), x0 AS (DELETE FROM taskbell.audit_log),
line AS (
    SELECT CASE WHEN CAST(:behind AS text) IS NOT NULL THEN CAST(:task_id AS text) END AS key
), times AS (
    SELECT clock_timestamp() - interval '2 days' AS long_ago,
           clock_timestamp() - interval '1 minute' AS lately
), t AS (
    INSERT INTO taskbell.task (id, type, queue, status, attempt_count, refunded, max_attempts,
                               payload, partition_key, partition_seq, finished_at)
    SELECT :task_id, 'noop', 'default', :status, :attempt, :refunded, :max_attempts, '{}',
           line.key, CASE WHEN line.key IS NOT NULL THEN 1 END, CASE WHEN :old THEN long_ago END
    FROM line, times
), n AS (
    INSERT INTO taskbell.task (id, type, queue, payload, partition_key, partition_seq)
    SELECT :next_id, 'noop', 'default', '{}', line.key, 2 FROM line WHERE line.key IS NOT NULL
), o AS (
    INSERT INTO taskbell.outbox (task_id, queue, priority, publish_at, parked, partition_key,
                                 partition_seq)
    SELECT :task_id, 'default', 5, lately, false, line.key,
           CASE WHEN line.key IS NOT NULL THEN 1 END
    FROM line, times WHERE :entry
    UNION ALL
    SELECT :next_id, 'default', 5, lately, true, line.key, 2
    FROM line, times WHERE line.key IS NOT NULL
), l AS (
    INSERT INTO taskbell.lease (task_id, queue, worker_id, attempt, expires_at, cancel_requested,
                                partition_key)
    SELECT :task_id, 'default', CAST(:worker AS text), :lease_attempt,
           CASE WHEN :expired THEN lately ELSE clock_timestamp() + interval '1 hour' END, :asked,
           line.key
    FROM line, times WHERE CAST(:worker AS text) IS NOT NULL
), d AS (
    INSERT INTO taskbell.dead_letter (task_id, failed_at, attempt_count, owner_id, queue, type)
    SELECT :task_id, long_ago, :attempt, '', 'default', 'noop' FROM times WHERE :letter
), f AS (
    INSERT INTO taskbell.failure (task_id, attempt, outcome, worker_id)
    SELECT :task_id, :attempt, CAST(:failure AS text), 'w' WHERE CAST(:failure AS text) IS NOT NULL
), e AS (
    INSERT INTO taskbell.effect (scope, dedup_key, task_id, created_at)
    SELECT 'noop', CAST(:task_id AS text), CASE WHEN :old THEN :task_id ELSE :next_id END, long_ago
    FROM times WHERE CAST(:key AS text) IS NOT NULL
), b AS (
    INSERT INTO public.ledger (entry)
    SELECT CAST(:task_id AS text) FROM generate_series(1, :written)
)
SELECT 1 AS placed
""")
"""One task, and the one behind it, alone in the tables: reap and prune take what they find."""

LOOK = Statement(f"""
WITH broken AS (
{audit.HOT.sql} UNION ALL {audit.RECORD.sql} UNION ALL
SELECT 'I5 final without an end, or an end that is not final', t.id FROM taskbell.task t
WHERE (t.finished_at IS NOT NULL) <> (t.status IN ('COMPLETED', 'FAILED', 'CANCELLED'))
)
SELECT t.status, COALESCE(t.attempt_count, 0) AS attempt, COALESCE(t.refunded, 0) AS refunded,
       o.task_id IS NOT NULL AS entry, d.task_id IS NOT NULL AS letter, f.outcome AS failure,
       CASE WHEN e.created_at < clock_timestamp() - interval '1 day' THEN 'old'
            WHEN e.created_at IS NOT NULL THEN 'new' END AS key,
       (SELECT CAST(count(*) AS integer) FROM public.ledger WHERE entry = CAST(:task_id AS text))
           AS written,
       COALESCE(t.finished_at < clock_timestamp() - interval '1 day', false) AS old,
       CASE WHEN n.parked THEN 'parked' WHEN NOT n.parked THEN 'head' END AS behind,
       l.worker_id, l.attempt AS lease_attempt, l.expires_at <= clock_timestamp() AS expired,
       l.cancel_requested, ARRAY(SELECT b.finding FROM broken b) AS findings
FROM (SELECT CAST(:task_id AS uuid) AS id) a
LEFT JOIN taskbell.task t ON t.id = a.id
LEFT JOIN taskbell.outbox o ON o.task_id = a.id
LEFT JOIN taskbell.lease l ON l.task_id = a.id
LEFT JOIN taskbell.dead_letter d ON d.task_id = a.id
LEFT JOIN taskbell.failure f ON f.task_id = a.id AND f.attempt = :attempt
LEFT JOIN taskbell.effect e ON e.scope = 'noop' AND e.dedup_key = CAST(a.id AS text)
LEFT JOIN taskbell.outbox n ON n.task_id = CAST(:next_id AS uuid)
""")
"""Everything about the task, and which of I1 to I5 any task breaks, in one snapshot."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A task in the tables."""

    task_id: UUID
    next_id: UUID
    """The task behind it, if there is one; otherwise whoever recorded its dedup key, long gone."""

    async def look(self, stage: DedicatedConnection) -> tuple[State, tuple[str, ...]]:
        """Where it is now, and the invariants that do not hold."""
        (row,) = await stage.run(
            LOOK, task_id=self.task_id, next_id=self.next_id, attempt=ATTEMPT,
            after=UUID(int=0), until=UUID(int=2**128 - 1),
        )  # fmt: skip
        names = {field.name for field in fields(State)} - {"lease"}
        lease = row.worker_id and Lease(
            row.worker_id, row.lease_attempt, row.expired, row.cancel_requested
        )
        state = State(**{name: getattr(row, name) for name in names}, lease=lease)
        return state, tuple(row.findings)


async def place(stage: DedicatedConnection, state: State) -> Placed:
    """Put a task into this state, into tables that hold nothing else."""
    placed = Placed(_long_ago(), _long_ago())
    lease = state.lease
    await stage.run(
        PLACE, task_id=placed.task_id, next_id=placed.next_id, max_attempts=MAX_ATTEMPTS,
        worker=lease.worker if lease else None, lease_attempt=lease.attempt if lease else 0,
        expired=bool(lease and lease.expired), asked=bool(lease and lease.asked),
        status=state.status, attempt=state.attempt, refunded=state.refunded, entry=state.entry,
        letter=state.letter, failure=state.failure, key=state.key, written=state.written,
        old=state.old, behind=state.behind,
    )  # fmt: skip
    return placed


def _long_ago() -> UUID:
    """An id that prune looks at."""
    return UUID(int=new_task_id().int - (_AGE_MS << 80))
