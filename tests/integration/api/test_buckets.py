"""One bucket for all replicas: what is set is kept, by all of them together, and costs little."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from support.clocks import Clock
from support.workers import rows
from taskbell.producer.api.buckets import Buckets
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.gate import UNRATED_SECONDS
from taskbell.shared.connections import Connections
from taskbell.shared.database import Database, Rows
from taskbell.shared.errors import DatabaseAway, RateLimited
from taskbell.shared.statement import Statement

# Slow enough that no test lives to see a token come.
CRAWL = 1e-9


class Replica:
    """The buckets of one process, the statements they ran and the clock they look at."""

    def __init__(self, connections: Connections) -> None:
        self.asked = 0
        self.away = False
        self.clock = Clock()
        self._connections = connections
        self.buckets = Buckets(self, roll=lambda: 0.0, clock=self.clock)

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        self.asked += 1
        if self.away:
            raise DatabaseAway("away")
        return await self._connections.run(statement, **parameters)

    async def admits(self, principal: Principal, count: int = 1) -> bool:
        try:
            await self.buckets.take(principal, count)
        except RateLimited:
            return False
        return True


@asynccontextmanager
async def replicas(url: str, count: int) -> AsyncGenerator[list[Replica]]:
    async with AsyncExitStack() as stack:
        ours: list[Replica] = []
        for _ in range(count):
            connections = Connections(Database(url), "test", 5, patience=60.0)
            stack.push_async_callback(connections.close)
            ours.append(Replica(connections))
        yield ours


@pytest.fixture
async def replica(database_url: str) -> AsyncGenerator[Replica]:
    async with replicas(database_url, 1) as (only,):
        yield only


def caller(owner: str = "o", key: str | None = None) -> Principal:
    return Principal("caller", owner, frozenset({Scope.SUBMIT}), key)


def limit(
    url: str, name: str = "o", *, scope: str = "owner", burst: float = 10, rate: float = CRAWL,
    tokens: float | None = None,
) -> None:  # fmt: skip
    rows(
        url,
        "INSERT INTO taskbell.rate_limit (scope, name, rate, burst, tokens)"
        " VALUES (%s, %s, %s, %s, %s)",
        scope, name, rate, burst, burst if tokens is None else tokens,
    )  # fmt: skip


def tokens(url: str) -> dict[str, float]:
    return {
        row.name: float(row.tokens)
        for row in rows(
            url, "SELECT name, round(CAST(tokens AS numeric), 3) AS tokens FROM taskbell.rate_limit"
        )
    }


async def test_whoever_has_no_limit_costs_a_look_each_five_seconds(replica: Replica) -> None:
    for _ in range(100):
        assert await replica.admits(caller(key="k"))
    looks = replica.asked
    replica.clock.now += UNRATED_SECONDS
    assert await replica.admits(caller(key="k"))

    assert (looks, replica.asked) == (1, 2)


async def test_a_limit_that_is_set_is_kept_within_its_memory(
    replica: Replica, database_url: str
) -> None:
    assert await replica.admits(caller())
    limit(database_url, tokens=0)
    replica.clock.now += UNRATED_SECONDS - 0.001
    remembered = await replica.admits(caller())
    replica.clock.now += 0.001

    assert remembered
    assert not await replica.admits(caller())


async def test_a_limit_that_is_removed_is_forgotten_within_a_second(
    replica: Replica, database_url: str
) -> None:
    limit(database_url, tokens=0)
    refused = await replica.admits(caller())
    rows(database_url, "DELETE FROM taskbell.rate_limit")
    replica.clock.now += 1.0

    assert not refused
    assert await replica.admits(caller())


async def test_a_low_rate_is_exact_whoever_is_asked(database_url: str) -> None:
    limit(database_url, burst=10)
    async with replicas(database_url, 3) as ours:
        answers = [await ours[turn % 3].admits(caller()) for turn in range(30)]

    assert answers == [True] * 10 + [False] * 20
    assert tokens(database_url) == {"o": 0}


async def test_three_replicas_together_never_admit_more_than_burst_and_rate_allow(
    database_url: str,
) -> None:
    limit(database_url, burst=100, rate=0.001)
    admitted: list[int] = []
    async with replicas(database_url, 3) as ours:
        for seconds in (0, 5_000, 1_000_000, 0):
            rows(
                database_url,
                "UPDATE taskbell.rate_limit"
                " SET refilled_at = refilled_at - make_interval(secs => %s)",
                seconds,
            )
            turns = [await asyncio.gather(*(each.admits(caller()) for each in ours))
                     for _ in range(50)]  # fmt: skip
            admitted.append(sum(map(sum, turns)))
            for each in ours:
                each.clock.now += 2.0

    # A thousandth of a token a second: the test's own seconds bring none.
    assert admitted == [100, 5, 100, 0]


async def test_a_busy_replica_asks_for_portions(database_url: str) -> None:
    # A tenth of a second's tokens would be 400; a quarter of the bucket is the most.
    limit(database_url, burst=1000, rate=4000)
    async with replicas(database_url, 3) as ours:
        answers = [await ours[turn % 3].admits(caller()) for turn in range(750)]

    assert all(answers)
    assert [each.asked for each in ours] == [1, 1, 1]


async def test_a_portion_is_not_spent_later_than_within_a_second(
    replica: Replica, database_url: str
) -> None:
    limit(database_url, burst=100, rate=1e6)
    assert await replica.admits(caller())
    rows(database_url, "UPDATE taskbell.rate_limit SET rate = %s, tokens = 0", CRAWL)

    in_time = await replica.admits(caller())
    replica.clock.now += 1.0

    assert in_time
    assert not await replica.admits(caller())


async def test_owner_and_key_both_pay_or_neither(replica: Replica, database_url: str) -> None:
    limit(database_url, "o", burst=10)
    limit(database_url, "tbk_k", scope="key", burst=2)
    principal = caller(key="tbk_k")

    answers = [await replica.admits(principal) for _ in range(3)]
    another = await replica.admits(caller(key="tbk_other"))

    assert answers == [True, True, False]
    assert another
    assert tokens(database_url) == {"o": 7, "tbk_k": 0}


async def test_the_owner_pays_though_the_key_alone_is_asked_for(
    replica: Replica, database_url: str
) -> None:
    limit(database_url, "o", burst=100, rate=1e6)
    limit(database_url, "tbk_k", scope="key", burst=100)
    first = await replica.admits(caller(key="tbk_k"))
    rows(database_url, "UPDATE taskbell.rate_limit SET rate = %s", CRAWL)
    rows(database_url, "UPDATE taskbell.rate_limit SET tokens = 0 WHERE scope = 'owner'")

    answers = [await replica.admits(caller(key="tbk_k")) for _ in range(30)]

    # A quarter of the owner's hundred was taken at first, and one of these spent.
    assert first
    assert answers == [True] * 24 + [False] * 6
    assert tokens(database_url) == {"o": 0, "tbk_k": 75}


@pytest.mark.parametrize("scope", ["owner", "key"])
async def test_a_refusal_says_whose_rate_it_was_and_when_to_come_back(
    replica: Replica, database_url: str, scope: str
) -> None:
    limit(database_url, "same", scope=scope, burst=3, rate=0.1, tokens=1)

    with pytest.raises(RateLimited) as refused:
        await replica.buckets.take(caller("same", "same"), 3)

    assert (refused.value.scope, refused.value.name) == (scope, "same")
    # Two tokens at one in ten seconds, less what came while the test ran.
    assert refused.value.retry_after <= 20.0
    assert refused.value.retry_after >= 1.0


async def test_whoever_was_refused_is_refused_without_asking_until_tokens_can_have_come(
    replica: Replica, database_url: str
) -> None:
    limit(database_url, burst=5, tokens=2)
    assert not await replica.admits(caller(), 3)
    refused = [await replica.admits(caller(), 3) for _ in range(100)]
    asked = replica.asked
    fewer = await replica.admits(caller(), 2)

    assert (any(refused), asked) == (False, 1)
    assert fewer
    assert replica.asked == 2


async def test_fifty_at_once_spend_ten_tokens_ten_times(
    replica: Replica, database_url: str
) -> None:
    limit(database_url, burst=10)

    answers = await asyncio.gather(*(replica.admits(caller()) for _ in range(50)))

    assert sum(answers) == 10
    assert replica.asked <= 11


async def test_what_was_spent_here_comes_back_when_the_database_cannot_be_asked(
    replica: Replica, database_url: str
) -> None:
    limit(database_url, "o", burst=8, rate=1e6)
    assert await replica.admits(caller())
    rows(database_url, "UPDATE taskbell.rate_limit SET rate = %s, tokens = 0", CRAWL)
    limit(database_url, "tbk_k", scope="key", burst=1)
    replica.away = True
    with pytest.raises(DatabaseAway):
        await replica.buckets.take(caller(key="tbk_k"), 1)
    replica.away = False

    # Two were taken at first, one of which was spent: the other is here still, once.
    assert await replica.admits(caller())
    assert not await replica.admits(caller())


async def test_all_who_wait_for_one_look_fail_with_it(database_url: str) -> None:
    """The owner's row may be locked for long: by a producer that has not committed."""
    limit(database_url)
    database = Database(database_url, deadline=1.0)
    connections = Connections(database, "test", 5)
    replica = Replica(connections)
    holder = await database.connect("holder")
    try:
        async with holder.transaction():
            await holder.execute("SELECT FROM taskbell.rate_limit FOR UPDATE")
            asked = [replica.buckets.take(caller(), 1) for _ in range(5)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        await holder.close()
        await connections.close()

    assert [type(answer) for answer in answers] == [DatabaseAway] * 5
    assert replica.asked == 1, "one after the other would have waited for each other"


async def test_who_waits_for_a_look_that_is_called_off_looks_again(
    replica: Replica, database_url: str
) -> None:
    limit(database_url, burst=1)
    first = asyncio.ensure_future(replica.buckets.take(caller(), 1))
    others = [asyncio.ensure_future(replica.admits(caller())) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()

    admitted = await asyncio.gather(*others)

    assert first.cancelled()
    assert sum(admitted) + sum(tokens(database_url).values()) <= 1 + 1e-6
