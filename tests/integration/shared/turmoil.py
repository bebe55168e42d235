"""All at once: producers, claimers that fail and crash, reaper, promoter, operators, auditor.

All by the statements, each actor on a connection of its own. What happened is recorded by triggers,
in the order in which Postgres let it happen.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from support.hands import ENQUEUE, Hands, hands, session
from support.waiting import PATIENCE
from support.workers import rows
from taskbell.shared import dead_letters, queues, tasks
from taskbell.shared.audit import Finding, look
from taskbell.shared.ids import new_task_id
from taskbell.shared.lifecycle import Verdict
from taskbell.shared.statement import Statement
from taskbell.shared.statements import settlement

HOLD, CONTINUE = "hold", "continue"
KEYS = [(queue, f"k{n}") for queue in (HOLD, CONTINUE) for n in range(25)]
CLAIMERS = 8

RECORD = """
CREATE TABLE history (n bigserial PRIMARY KEY, what text, queue text, key text, seq bigint,
                      task_id uuid, attempt integer);
CREATE FUNCTION record_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO history (what, queue, key, task_id, attempt)
    SELECT CASE TG_OP WHEN 'INSERT' THEN 'leased' ELSE 'ended' END, l.queue, l.partition_key,
           l.task_id, l.attempt
    FROM (SELECT (CASE TG_OP WHEN 'INSERT' THEN NEW ELSE OLD END).*) l;
    RETURN NULL; END $$;
CREATE FUNCTION record_task() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO history (what, queue, key, seq, task_id, attempt)
    VALUES (NEW.status, NEW.queue, NEW.partition_key, NEW.partition_seq, NEW.id, NEW.attempt_count);
    RETURN NULL; END $$;
CREATE TRIGGER record AFTER INSERT OR DELETE ON taskbell.lease
    FOR EACH ROW EXECUTE FUNCTION record_lease();
CREATE TRIGGER record AFTER UPDATE OF status ON taskbell.task
    FOR EACH ROW EXECUTE FUNCTION record_task();
"""

CRASH = Statement("""
UPDATE taskbell.lease SET expires_at = clock_timestamp() - interval '1 second'
WHERE task_id = :task_id AND attempt = :attempt RETURNING task_id
""")

LEFT = Statement("""
SELECT (SELECT count(*) FROM taskbell.outbox) + (SELECT count(*) FROM taskbell.lease)
     + (SELECT count(*) FROM taskbell.dead_letter)
     + (SELECT count(*) FROM taskbell.held_partition) AS rows
""")

VERDICTS: dict[Verdict | None, int] = {
    "completed": 45, "retry": 20, "fail": 10, "snooze": 5, "release": 5, "cancelled": 2, None: 13,
}  # fmt: skip


class Turmoil:
    """One run: so many tasks for each key, turmoil for ``seconds``, then calm until all is done."""

    def __init__(self, url: str, seed: int, *, tasks_of_a_key: int, seconds: float) -> None:
        self.url = url
        self.ids: list[UUID] = []
        self.findings: list[Finding] = []
        self.refused: list[str] = []
        self._dice = random.Random(seed)  # noqa: S311 - dice
        self._tasks_of_a_key = tasks_of_a_key
        self._seconds = seconds
        self._calm = False
        self._over = asyncio.Event()

    async def run(self) -> list[Any]:
        """Return the history once nothing is left; raises ``TimeoutError`` if something is."""
        rows(self.url, RECORD)
        actors = [self._claimer] * CLAIMERS
        actors += [self._caretaker, self._canceller, self._operator, self._auditor]
        async with asyncio.timeout(self._seconds + PATIENCE), asyncio.TaskGroup() as background:
            async with hands(self.url, "setup") as ours:
                await queues.set_on_dead(ours.connection, HOLD, "hold", actor="me")
            for n, actor in enumerate(actors):
                background.create_task(self._act(actor, f"a{n}"))
            await asyncio.gather(
                self._producer(KEYS[::2]), self._producer(KEYS[1::2]), asyncio.sleep(self._seconds)
            )
            self._calm = True
            await self._over.wait()
        return rows(self.url, "SELECT * FROM history ORDER BY n")

    async def _act(self, actor: Callable[[Hands], Awaitable[None]], name: str) -> None:
        async with hands(self.url, name) as ours:
            while not self._over.is_set():
                await actor(ours)
                await asyncio.sleep(self._dice.uniform(0, 0.01))

    async def _producer(self, keys: list[tuple[str, str]]) -> None:
        """One transaction after the other for each key: overlapping ones would have no order."""
        left = dict.fromkeys(keys, self._tasks_of_a_key)
        async with session(self.url) as ours:
            while left:
                queue, key = self._dice.choice(list(left))
                count = min(left[queue, key], self._dice.randint(1, 3))
                ids: list[UUID] = [new_task_id() for _ in range(count)]
                priorities = [self._dice.randint(0, 9) for _ in ids]
                await ours.run(ENQUEUE, queue=queue, key=key, ids=ids, priorities=priorities)
                await asyncio.sleep(self._dice.uniform(0, 0.03))
                if self._dice.random() < 0.1:
                    await ours.rollback()
                    continue
                await ours.commit()
                self.ids += ids
                left[queue, key] -= count
                if not left[queue, key]:
                    del left[queue, key]

    async def _claimer(self, ours: Hands) -> None:
        if self.ids and self._dice.random() < 0.3:
            some = self._dice.sample(self.ids, min(20, len(self.ids)))
            leases = await ours.claim_ids(some, limit=self._dice.randint(1, 5))
        else:
            queue = self._dice.choice([HOLD, CONTINUE])
            leases = await ours.claim(self._dice.randint(1, 5), queue)
        if self._calm:
            await ours.complete(leases)
            return
        for lease in leases:
            await self._end(ours, lease)

    async def _end(self, ours: Hands, lease: Any) -> None:
        verdict = self._dice.choices(list(VERDICTS), list(VERDICTS.values()))[0]
        if verdict == "completed" and self._dice.random() < 0.7:
            await ours.complete([lease])
        elif verdict is not None:
            delay = self._dice.choice([0.0, 0.05])
            await ours.settle(lease.task_id, lease.attempt, verdict, delay=delay)
        else:  # it crashes; some come back as a ghost that believes it still holds the lease
            await ours.connection.run(CRASH, task_id=lease.task_id, attempt=lease.attempt)
            if self._dice.random() < 0.5:
                await ours.complete([lease])

    async def _caretaker(self, ours: Hands) -> None:
        await ours.connection.run(settlement.REAP, batch=50)
        await ours.promote()

    async def _canceller(self, ours: Hands) -> None:
        if not self.ids or self._calm:
            return
        some = self._dice.sample(self.ids, min(2, len(self.ids)))
        answers = await tasks.cancel_many(ours.connection, some, actor="canceller")
        self.refused += [answer for answer in answers.values() if answer == "moved"]

    async def _operator(self, ours: Hands) -> None:
        letters = await dead_letters.list_many(ours.connection, limit=20)
        chosen = [each.task_id for each in letters if self._calm or self._dice.random() < 0.5]
        discarded = [] if self._calm else chosen[: self._dice.randint(0, 1)]
        await dead_letters.discard_many(ours.connection, discarded, actor="operator")
        await dead_letters.redrive_many(ours.connection, chosen, actor="operator")
        for partition in await queues.held(ours.connection, HOLD):
            if partition.status == "CANCELLED":
                key = partition.partition_key
                await queues.release(ours.connection, HOLD, key, actor="operator")

    async def _auditor(self, ours: Hands) -> None:
        self.findings += await look(ours.connection)
        if self._calm and not (await ours.connection.run(LEFT))[0].rows:
            self._over.set()
