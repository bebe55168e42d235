"""Cursors: a place, for the caller and the filters it was given to."""

import base64
from types import SimpleNamespace

import pytest

from taskbell.producer.api.cursor import Cursors
from taskbell.producer.api.problems import Problem
from taskbell.shared.database import Rows
from taskbell.shared.statement import Statement

PLACE = bytes(range(16))


class Database:
    """Answers with a secret, and counts how often it was asked."""

    def __init__(self, secret: bytes = b"s" * 32) -> None:
        self.secret = secret
        self.asked = 0

    async def run(self, statement: Statement, **parameters: object) -> Rows:
        del statement, parameters
        self.asked += 1
        return [SimpleNamespace(value=self.secret)]


async def _refused(
    cursors: Cursors, cursor: str, reach: str | None = "alice", **filters: str
) -> str:
    with pytest.raises(Problem) as problem:
        await cursors.read(cursor, reach, filters)
    return problem.value.kind.name


async def test_a_cursor_leads_back_to_its_place() -> None:
    database = Database()
    cursors = Cursors(database)

    cursor = await cursors.write(PLACE, "alice", {"type": "noop", "queue": "mails"})

    again = await cursors.read(cursor, "alice", {"queue": "mails", "type": "noop"})
    assert again == PLACE
    assert database.asked == 1


async def test_replicas_read_each_others_cursors() -> None:
    cursor = await Cursors(Database()).write(PLACE, None, {})

    assert await Cursors(Database()).read(cursor, None, {}) == PLACE


async def test_a_cursor_of_another_owner_filter_or_hand_is_refused() -> None:
    cursors = Cursors(Database())
    cursor = await cursors.write(PLACE, "alice", {"type": "noop"})
    foreign = await Cursors(Database(b"t" * 32)).write(PLACE, "alice", {"type": "noop"})

    assert await _refused(cursors, cursor, "bob", type="noop") == "invalid-cursor"
    assert await _refused(cursors, cursor, None, type="noop") == "invalid-cursor"
    assert await _refused(cursors, cursor, "alice", type="another") == "invalid-cursor"
    assert await _refused(cursors, cursor, "alice") == "invalid-cursor"
    assert await _refused(cursors, foreign, "alice", type="noop") == "invalid-cursor"


async def test_every_changed_bit_is_noticed() -> None:
    cursors = Cursors(Database())
    octets = base64.urlsafe_b64decode(await cursors.write(PLACE, "alice", {}) + "===")

    for place in range(len(octets)):
        changed = bytearray(octets)
        changed[place] ^= 1
        cursor = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
        assert await _refused(cursors, cursor) == "invalid-cursor"


@pytest.mark.parametrize("cursor", ["", "AQ", "ü", "a" * 5, "+/==", "A" * 1000, "AQ\n"])
async def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    assert await _refused(Cursors(Database()), cursor) == "invalid-cursor"


async def test_guessing_does_not_ask_the_database_again_and_again() -> None:
    database = Database()
    cursors = Cursors(database)
    wrong = await Cursors(Database(b"t" * 32)).write(PLACE, "alice", {})

    for _ in range(10):
        await _refused(cursors, wrong)

    assert database.asked == 1


async def test_a_missing_secret_says_migrate() -> None:
    class Empty(Database):
        async def run(self, statement: Statement, **parameters: object) -> Rows:
            del statement, parameters
            return []

    with pytest.raises(Problem) as problem:
        await Cursors(Empty()).write(PLACE, "alice", {})

    assert problem.value.kind.name == "not-migrated"
