"""API keys against the database: how long they are believed, and what using them writes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from support.api import Api
from support.hands import session
from support.waiting import PATIENCE
from support.workers import rows
from taskbell.producer.api.gatekeeper import BearerGatekeeper
from taskbell.producer.api.keys import ApiKeys, KeyUseUnwritten
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.server import close
from taskbell.shared import access
from taskbell.shared.access import Grant, NewKey, new_key
from taskbell.shared.connections import Connections
from taskbell.shared.database import Database, Rows
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Event, Observer, ignore
from taskbell.shared.statement import Statement
from taskbell.shared.statements import access as statements

LONG = 3600.0


@dataclass
class Counted:
    """Runs statements, counts them, and waits at a gate before it answers."""

    connections: Connections
    asked: dict[Statement, int] = field(default_factory=dict[Statement, int])
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    judges: list[ApiKeys] = field(default_factory=list[ApiKeys])

    def __post_init__(self) -> None:
        self.gate.set()

    def judge(
        self,
        seconds: float = LONG,
        observe: Observer = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> ApiKeys:
        """A judge of keys that asks here."""
        self.judges.append(ApiKeys(self, seconds, observe, clock))
        return self.judges[-1]

    async def close(self) -> None:
        """Close the connections once nobody uses them."""
        for judge in self.judges:
            await judge.at_rest()
        await self.connections.close()

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        """Run it."""
        self.asked[statement] = self.asked.get(statement, 0) + 1
        await self.gate.wait()
        return await self.connections.run(statement, **parameters)

    @property
    def sign_ins(self) -> int:
        """How often the database was asked for a key."""
        return self.asked.get(statements.SIGN_IN, 0)


@pytest.fixture
async def runner(database_url: str) -> AsyncGenerator[Counted]:
    runner = Counted(Connections(Database(database_url), "test", 4))
    yield runner
    await runner.close()


async def made(runner: Counted, *scopes: str, **rest: Any) -> NewKey:
    return await access.create(
        runner, Grant("alice", scopes or ("read", "submit"), **rest), actor="test"
    )


async def test_a_key_says_whose_it_is_and_what_it_may(runner: Counted) -> None:
    key = await made(runner)

    principal = await runner.judge().principal_of(key.text)

    scopes = frozenset({Scope.READ, Scope.SUBMIT})
    assert principal == Principal(key.prefix, "alice", scopes, key.prefix)


async def test_a_good_key_is_asked_for_once_by_all_who_come_with_it(runner: Counted) -> None:
    key, keys = await made(runner), runner.judge()
    runner.gate.clear()
    asking = [asyncio.ensure_future(keys.principal_of(key.text)) for _ in range(20)]
    await asyncio.sleep(0)
    asking[0].cancel()
    runner.gate.set()

    found = await asyncio.gather(*asking[1:])

    assert {principal is not None for principal in found} == {True}
    assert await keys.principal_of(key.text) is found[0]
    assert runner.sign_ins == 1


async def test_a_wrong_key_is_not_asked_for_again_at_once_and_pushes_no_good_one_out(
    runner: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskbell.producer.api.keys._MOST_REMEMBERED", 3)
    now = [0.0]
    keys = runner.judge(clock=lambda: now[0])
    key, wrong, last = await made(runner), new_key().text, new_key().text
    await keys.principal_of(key.text)

    for guess in (wrong, wrong, *(new_key().text for _ in range(9)), last):
        assert await keys.principal_of(guess) is None

    assert runner.sign_ins == 12
    assert await keys.principal_of(key.text) is not None
    assert runner.sign_ins == 12
    assert await keys.principal_of(last) is None
    now[0] = 1.1
    assert await keys.principal_of(last) is None
    assert runner.sign_ins == 13


async def test_a_revoked_key_is_refused_once_it_is_asked_for_again(runner: Counted) -> None:
    key = await made(runner)
    believing, doubting = runner.judge(), runner.judge(0.0)
    assert await believing.principal_of(key.text) == await doubting.principal_of(key.text)

    assert await access.revoke_many(runner, [key.prefix], actor="test") == [key.prefix]

    assert await doubting.principal_of(key.text) is None
    assert await believing.principal_of(key.text) is not None


async def test_a_key_is_believed_no_longer_than_it_is_good(
    runner: Counted, database_url: str
) -> None:
    now = [0.0]
    key, keys = await made(runner, seconds=600.0), runner.judge(clock=lambda: now[0])
    assert await keys.principal_of(key.text) is not None
    rows(database_url, "UPDATE taskbell.api_key SET expires_at = clock_timestamp()")

    now[0] = 400.0  # the test itself may have taken a while
    assert await keys.principal_of(key.text) is not None
    now[0] = 600.1
    assert await keys.principal_of(key.text) is None


async def test_a_rotated_key_works_beside_the_new_one_until_the_overlap_ends(
    runner: Counted, database_url: str
) -> None:
    old = await made(runner, label="shop", rate=5.0, burst=10.0)
    rotated = await access.rotate(runner, old.prefix, overlap=LONG, seconds=None, actor="test")
    assert rotated is not None
    keys = runner.judge(0.0)

    first, second = [await keys.principal_of(key.text) for key in (old, rotated.key)]
    rows(
        database_url,
        "UPDATE taskbell.api_key SET expires_at = clock_timestamp() WHERE prefix = %s", old.prefix,
    )  # fmt: skip

    assert first is not None
    assert second is not None
    assert (first.owner_id, first.scopes) == (second.owner_id, second.scopes)
    known = await access.find(runner, rotated.key.prefix)
    assert known is not None
    assert (known.label, known.rate, known.burst, known.expires_at) == ("shop", 5.0, 10.0, None)
    assert await keys.principal_of(old.text) is None
    assert await keys.principal_of(rotated.key.text) is not None


async def test_rotating_never_lengthens_the_life_of_the_old_key(
    runner: Counted, database_url: str
) -> None:
    old = await made(runner, seconds=60.0)
    expires = "SELECT expires_at FROM taskbell.api_key WHERE prefix = %s"
    (before,) = rows(database_url, expires, old.prefix)

    assert await access.rotate(runner, old.prefix, overlap=LONG, seconds=None, actor="me") is None
    rotated = await access.rotate(runner, old.prefix, overlap=LONG, seconds=LONG, actor="me")

    assert rotated is not None
    assert rows(database_url, expires, old.prefix) == [before]
    assert rotated.old_expires_at == before.expires_at


async def test_what_has_ended_is_not_rotated(runner: Counted, database_url: str) -> None:
    revoked, expired = await made(runner), await made(runner, seconds=LONG)
    await access.revoke_many(runner, [revoked.prefix], actor="me")
    rows(
        database_url,
        "UPDATE taskbell.api_key SET expires_at = clock_timestamp() WHERE prefix = %s",
        expired.prefix,
    )

    for prefix in (revoked.prefix, expired.prefix, new_key().prefix):
        assert await access.rotate(runner, prefix, overlap=1.0, seconds=LONG, actor="me") is None

    assert len(rows(database_url, "SELECT prefix FROM taskbell.api_key")) == 2


async def until_used(database_url: str, prefix: str) -> Any:
    """When the key was last used, once that is written."""
    async with asyncio.timeout(PATIENCE):
        while True:
            (row,) = rows(
                database_url, "SELECT last_used_at FROM taskbell.api_key WHERE prefix = %s", prefix
            )
            if row.last_used_at is not None:
                return row.last_used_at
            await asyncio.sleep(0.01)


async def test_when_a_key_was_last_used_is_written_at_most_once_a_minute(
    runner: Counted, database_url: str
) -> None:
    key, keys = await made(runner), runner.judge(0.0)
    await keys.principal_of(key.text)
    await until_used(database_url, key.prefix)
    # However long the rest takes, it is within this minute …
    rows(
        database_url,
        "UPDATE taskbell.api_key SET last_used_at = clock_timestamp() + interval '1 hour'",
    )

    for _ in range(5):
        await keys.principal_of(key.text)
    await keys.at_rest()
    assert runner.asked[statements.TOUCH] == 1
    # … and this is behind it.
    (before,) = rows(
        database_url,
        "UPDATE taskbell.api_key SET last_used_at = clock_timestamp() - interval '61 s'"
        " RETURNING last_used_at",
    )
    await keys.principal_of(key.text)
    await keys.at_rest()

    assert runner.asked[statements.TOUCH] == 2
    assert await until_used(database_url, key.prefix) > before.last_used_at


async def test_writing_the_last_use_delays_nobody_and_waits_for_nobody(
    runner: Counted, database_url: str
) -> None:
    key, seen = await made(runner), list[Event]()
    keys = runner.judge(0.0, seen.append)
    async with session(database_url) as other:
        await other.run(Statement("SELECT prefix FROM taskbell.api_key FOR UPDATE"))

        assert await keys.principal_of(key.text) is not None
        await keys.at_rest()
        (row,) = rows(database_url, "SELECT last_used_at FROM taskbell.api_key")
        assert row.last_used_at is None
        assert seen == []  # it did not wait until it was given up

    assert await keys.principal_of(key.text) is not None
    await until_used(database_url, key.prefix)


async def test_on_a_read_only_server_keys_are_good_and_nothing_is_written(
    database_url: str, runner: Counted
) -> None:
    key, seen = await made(runner), list[Event]()
    name = database_url.rpartition("/")[2].partition("?")[0]
    rows(database_url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    reading = Counted(Connections(Database(database_url), "reader", 1))
    keys = reading.judge(0.0, seen.append)

    assert await keys.principal_of(key.text) is not None
    await keys.at_rest()
    await reading.close()

    assert statements.TOUCH not in reading.asked
    assert seen == []


async def test_a_last_use_that_cannot_be_written_is_told_once_and_refuses_nobody(
    runner: Counted, database_url: str
) -> None:
    key, seen = await made(runner), list[Event]()
    keys = runner.judge(0.0, seen.append)
    rows(
        database_url,
        "ALTER TABLE taskbell.api_key ADD CONSTRAINT unused CHECK (last_used_at IS NULL)",
    )

    for _ in range(3):
        assert await keys.principal_of(key.text) is not None
        await keys.at_rest()

    (told,) = seen
    assert isinstance(told, KeyUseUnwritten)
    assert told.keys == 1
    assert "violates check constraint" in told.error
    assert key.key_hash.hex() not in told.error


async def test_a_key_that_cannot_be_looked_up_is_not_called_wrong() -> None:
    away = Counted(Connections(Database("postgresql://127.0.0.1:1/none"), "test", 1))

    with pytest.raises(DatabaseAway):
        await away.judge().principal_of(new_key().text)
    await away.close()


async def test_a_scope_of_a_newer_version_allows_nothing(
    runner: Counted, database_url: str
) -> None:
    key = await made(runner, "read")
    rows(database_url, "ALTER TABLE taskbell.api_key DROP CONSTRAINT api_key_scopes")
    rows(database_url, "UPDATE taskbell.api_key SET scopes = scopes || '{schedule}'")

    principal = await runner.judge().principal_of(key.text)

    assert principal is not None
    assert principal.scopes == {Scope.READ}


async def test_last_uses_are_written_before_a_process_that_ends_closes_its_connections(
    api: Api, runner: Counted, database_url: str
) -> None:
    key, late = await made(runner), asyncio.Event()

    class Late(Counted):
        async def run(self, statement: Statement, **parameters: object) -> Rows:
            if statement is statements.TOUCH:
                await late.wait()
            return await super().run(statement, **parameters)

    keys = Late(runner.connections).judge()
    await keys.principal_of(key.text)
    parts = replace(api.parts, gatekeeper=BearerGatekeeper(keys, None))
    closing = asyncio.ensure_future(close(parts))
    await asyncio.sleep(0)
    late.set()
    await closing

    (row,) = rows(database_url, "SELECT last_used_at FROM taskbell.api_key")
    assert row.last_used_at is not None
