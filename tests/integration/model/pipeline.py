"""The real statements and verbs, one method for each step of the machine, and the rows they leave.

One loop, one connection for each colour: what overlapping transactions do to one another is told
by the tests of races, here it is the life of the tasks.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Self, TypeVar
from uuid import UUID

import psycopg

from integration.model.model import KEEP, MARK_AGE, Asked
from support.hands import EPOCH
from taskbell.consumer import Consumer
from taskbell.consumer.effect import Effect
from taskbell.consumer.effects import Effects
from taskbell.consumer.ended import Answered, Ended
from taskbell.consumer.errors import EffectSeen, LeaseLost
from taskbell.consumer.fence import Fence, Holder, Mark
from taskbell.consumer.leases import Claims, Lease
from taskbell.consumer.settling import Settler
from taskbell.consumer.stage import Stage
from taskbell.consumer.transaction import AsyncTransaction, Isolation
from taskbell.producer import Enqueued, IdempotencyConflict, NewTask, Producer
from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.events import LeasesReaped, PartitionsPromoted, TasksPruned, ignore
from taskbell.shared.floors import Floors
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Settlement
from taskbell.shared.limits import LEVELS
from taskbell.shared.maintenance.promote import Promote, Promoter
from taskbell.shared.maintenance.prune import Prune
from taskbell.shared.maintenance.reap import Reap
from taskbell.shared.statements import audit, outbox
from taskbell.shared.statements import lease as leases

T = TypeVar("T")

UNIT: Final = 1800.0
LEASES: Final = {"short": 1, "long": 3}
"""How long each type's lease lasts."""
WINDOW: Final = 100

_SHIFTED: Final = {
    "outbox": ("publish_at", "announced_at"),
    "lease": ("expires_at",),
    "task": ("created_at", "scheduled_at", "started_at", "finished_at"),
    "dead_letter": ("failed_at",),
    "failure": ("failed_at",),
    "effect": ("created_at",),
    "held_partition": ("held_at",),
    "queue": ("paused_until",),
}
_PASS: Final = "; ".join(
    f"UPDATE taskbell.{table} SET "
    + ", ".join(f"{column} = {column} - make_interval(secs => {{0}})" for column in columns)
    for table, columns in _SHIFTED.items()
)
_EMPTY: Final = "; ".join(
    f"DELETE FROM {table}"
    for table in (*(f"taskbell.{name}" for name in (*_SHIFTED, "idempotency")), "public.ledger")
)


def _ahead(instant: str) -> str:
    """How many units lie ahead; half a unit of time may go by before the answer is another."""
    return f"CAST(round(extract(epoch FROM {instant} - clock_timestamp()) / {UNIT}) AS integer)"


_PICTURE: Final = f"""
SELECT (SELECT jsonb_object_agg(t.id, jsonb_build_object(
            'status', t.status, 'attempts', jsonb_build_array(t.attempt_count, t.refunded),
            'finished', {_ahead("t.finished_at")}, 'error', t.error_message,
            'entry', CASE WHEN o.task_id IS NOT NULL THEN jsonb_build_array(
                {_ahead("o.publish_at")}, o.parked, {_ahead("o.announced_at")}) END,
            'lease', CASE WHEN l.task_id IS NOT NULL THEN jsonb_build_array(
                l.worker_id, l.attempt, {_ahead("l.expires_at")}, l.cancel_requested) END,
            'letter', CASE WHEN d.task_id IS NOT NULL THEN jsonb_build_array(
                {_ahead("d.failed_at")}, d.attempt_count, d.fingerprint, d.worker_id) END,
            'failures', (SELECT jsonb_agg(jsonb_build_array(f.attempt, f.outcome, f.worker_id)
                                          ORDER BY f.attempt)
                         FROM taskbell.failure f WHERE f.task_id = t.id)))
        FROM taskbell.task t LEFT JOIN taskbell.outbox o ON o.task_id = t.id
        LEFT JOIN taskbell.lease l ON l.task_id = t.id
        LEFT JOIN taskbell.dead_letter d ON d.task_id = t.id) AS tasks,
       (SELECT jsonb_object_agg(q.name, jsonb_build_array(
            q.paused, {_ahead("q.paused_until")}, q.on_dead)) FROM taskbell.queue q) AS queues,
       (SELECT jsonb_object_agg(h.queue || '/' || h.partition_key, h.task_id)
        FROM taskbell.held_partition h) AS holds,
       (SELECT jsonb_agg(i.task_id ORDER BY i.task_id) FROM taskbell.idempotency i) AS keys,
       (SELECT jsonb_object_agg(e.dedup_key, jsonb_build_array(
            e.task_id, {_ahead("e.created_at")})) FROM taskbell.effect e) AS effects,
       (SELECT jsonb_agg(g.task_id ORDER BY g.task_id) FROM public.ledger g) AS ledger,
       (SELECT count(*) FROM taskbell.outbox) + (SELECT count(*) FROM taskbell.lease)
         + (SELECT count(*) FROM taskbell.dead_letter)
         + (SELECT count(DISTINCT task_id) FROM taskbell.failure) AS rows
""".encode()


class Pipeline:
    """Everything that is done to the tasks of one database."""

    def __init__(self, url: str) -> None:
        """Connect; the ledger is where effects are written."""
        database = Database(url)
        self.connection = DedicatedConnection(database, "model")
        self._loop = asyncio.Runner()
        self._mine = database.connect_blocking("model")
        self._mine.execute("CREATE TABLE public.ledger (task_id uuid NOT NULL)")
        self._producer = Producer()
        self._effects = Effects(database, 1)
        self._promoter = Promoter()
        app = Consumer()
        for task_type, units in LEASES.items():
            app.handler(task_type, lease=units * UNIT)(_idle)
        self._registrations = app.registrations

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._effects.close())
        self.do(self.connection.close())
        self._mine.close()
        self._loop.close()

    def do(self, verb: Coroutine[Any, Any, T]) -> T:
        """What a verb answers."""
        return self._loop.run(verb)

    def begin(self) -> None:
        """Forget everything."""
        self._mine.execute(_EMPTY.encode())
        self._promoter = Promoter()

    def let_pass(self, units: int) -> None:
        """Let time pass: every stored instant moves into the past."""
        self._mine.execute(_PASS.format(units * UNIT).encode())

    def look(self) -> tuple[dict[str, Any], list[tuple[str, UUID]]]:
        """What the tables hold, and what the audit finds: I1 to I4. In one round trip."""
        everything = {"after": UUID(int=0), "until": UUID(int=2**128 - 1)}
        with self._mine.pipeline():
            picture = self._mine.execute(_PICTURE)
            hot = self._mine.execute(audit.HOT.for_psycopg)
            record = self._mine.execute(audit.RECORD.for_psycopg, everything)
        row = picture.fetchone()
        assert row is not None
        return dict(row._asdict()), [tuple(each) for each in (*hot, *record)]

    def enqueue(self, batch: Sequence[Asked], *, commits: bool) -> list[Enqueued] | UUID:
        """The answers, or the task that a conflicting key stands for."""
        requests = [_request(asked) for asked in batch]
        with self._mine.transaction(force_rollback=not commits):
            try:
                if len(requests) == 1:
                    return [self._producer.enqueue(self._mine, requests[0])]
                return self._producer.enqueue_many(self._mine, requests)
            except IdempotencyConflict as conflict:
                return conflict.task_id

    def announce(self, queue: str, batch: int) -> list[UUID]:
        """The tasks that were marked."""
        floors = self.do(Floors().of(queue, self.connection))
        rows = self.do(
            self.connection.run(
                outbox.ANNOUNCE, queue=queue, levels=list(LEVELS), floors=floors, batch=batch,
                window=WINDOW, mark_age=MARK_AGE * UNIT, connected_at=EPOCH,
            )
        )  # fmt: skip
        return [row.task_id for row in rows]

    def unannounce(self, task_ids: Iterable[UUID]) -> set[UUID]:
        """The tasks whose marks were taken back."""
        rows = self.do(self.connection.run(outbox.UNANNOUNCE, task_ids=list(task_ids)))
        return {row.task_id for row in rows}

    def claims(self, worker: str) -> Claims:
        """A worker's claims; the floors it remembers must not outlive the passing of time."""
        return Claims(self.connection, WorkerId(worker), self._registrations.values())

    def beat(self, worker: str, fences: Sequence[tuple[UUID, int]], units: int) -> dict[Any, str]:
        """What a worker's beat is told of each."""
        rows = self.do(
            self.connection.run(
                leases.HEARTBEAT, worker_id=worker,
                task_ids=[each[0] for each in fences], attempts=[each[1] for each in fences],
                leases=[units * UNIT] * len(fences),
            )
        )  # fmt: skip
        return {(row.task_id, row.attempt): row.answer for row in rows}

    def settle(
        self, worker: str, group: Sequence[tuple[Lease, Settlement]]
    ) -> dict[tuple[UUID, int], tuple[str | None, int | None]]:
        """What a worker's settler reports of each: the status, and the attempt of a lost task."""
        told: dict[tuple[UUID, int], tuple[str | None, int | None]] = {}

        def note(answered: Sequence[Answered]) -> None:
            for (_, one, _), status, current in answered:
                told[one.task_id, one.attempt] = status, current

        async def run() -> None:
            settler = Settler(self.connection, WorkerId(worker), ignore, note)
            for each in group:
                settler.add(Ended(*each))
            running = asyncio.ensure_future(settler.run())
            drained = asyncio.ensure_future(settler.drained())
            await asyncio.wait({running, drained}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            drained.cancel()

        self.do(run())
        return told

    def effect(
        self, worker: str, lease: Lease, key: str | None, isolation: Isolation, *, fails: bool
    ) -> str:
        """How an effect ended: ``run``, ``seen``, ``lost`` or ``failed``."""
        stages = [Stage.NONE]

        def unopened() -> AsyncTransaction[Any]:
            raise AssertionError("the effect is a blocking one")

        holder = Holder(
            lease.task_id, lease.attempt, WorkerId(worker), lambda: stages[-1],
            lambda stage, _result: stages.append(stage), lambda: UNIT,
        )  # fmt: skip
        mark = None if key is None else Mark("model", key)
        fence = Fence(holder, mark, locking=isolation != "READ COMMITTED", elsewhere=False)
        effect: Effect[Any, psycopg.Connection[Any]] = Effect(
            fence, unopened, lambda: self._effects.connection(None, isolation)
        )
        try:
            with effect as connection:
                connection.execute("INSERT INTO public.ledger VALUES (%s)", (lease.task_id,))
                if fails:
                    _fail()
        except _HandlerFailed:
            return "failed"
        except EffectSeen:
            return "seen"
        except LeaseLost:
            return "lost"
        return "run"

    def reap(self) -> LeasesReaped | None:
        """What the reaper reports."""
        return self.do(Reap().run_once(self.connection))

    def promote(self) -> PartitionsPromoted | None:
        """What the promoter reports that looks at all keys."""
        return self.do(Promote().run_once(self.connection))

    def promote_new(self) -> PartitionsPromoted | None:
        """What the promoter reports that looks at new keys."""
        return self.do(self._promoter.run_once(self.connection))

    def prune(self) -> TasksPruned | None:
        """What the pruner reports."""
        return self.do(Prune(KEEP * UNIT / (24 * 3600)).run_once(self.connection))


class _HandlerFailed(Exception):
    pass


def _idle(_context: object, _payload: object) -> None:
    """Stand for a handler: the steps decide what one does."""


def _fail() -> None:
    raise _HandlerFailed


def _request(asked: Asked) -> NewTask:
    return NewTask(
        asked.type, {}, queue=asked.queue, priority=asked.priority,
        max_attempts=asked.max_attempts, partition_key=asked.partition_key,
        delay=asked.delay * UNIT, idempotency_key=asked.idempotency_key, task_id=asked.task_id,
    )  # fmt: skip
