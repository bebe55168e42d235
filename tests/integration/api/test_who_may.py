"""Every way into the interface asks who calls, and shows nobody what is another owner's.

The ways are those the framework has; each must have its line in ``rules.RULES``.
"""

import re
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from starlette.responses import Response
from starlette.routing import Mount, Router

from integration.api.house import OWNER_SCOPES, House, open_house, said
from integration.api.rules import Reach, Way, ways_of, without_rule
from support.api import Api, MakeApi
from support.recorded import Ran
from support.workers import rows
from taskbell.producer.api.principal import Scope
from taskbell.shared import access
from taskbell.shared.access import new_key
from taskbell.shared.database import conninfo
from taskbell.shared.ids import new_task_id


@pytest.fixture
def api(make_api: MakeApi) -> Api:
    """The interface, whose streams end soon."""
    return make_api(api_stream_seconds=1.0)


@pytest.fixture
async def house(database_url: str, api: Api) -> AsyncGenerator[House]:
    """Two owners, an administrator and alice's tasks."""
    house = await open_house(database_url, api)
    yield house
    await house.close()


def reaching(house: House, *reaches: Reach) -> list[Way]:
    """The ways that reach such things."""
    return [way for way in ways_of(house.app) if way.rule.reach in reaches]


def guarded(house: House) -> list[Way]:
    """The ways that need credentials."""
    return [way for way in ways_of(house.app) if way.rule.reach is not Reach.PUBLIC]


async def nothing(request: object) -> Response:
    """Answer nothing."""
    del request
    return Response()


def test_every_way_in_has_a_rule_and_needs_the_scope_it_says(house: House) -> None:
    assert without_rule(house.app) == []
    assert {f"{each.method} {each.path}": each.scope for each in house.app.state.routes} == {
        way.name: way.rule.scope for way in ways_of(house.app)
    }


def test_a_way_in_that_was_forgotten_is_found_however_it_was_added(house: House) -> None:
    house.app.add_route("/forgotten", nothing)
    house.app.add_api_route("/tasks", nothing, methods=["DELETE"])
    house.app.router.routes.append(Mount("/mounted", Router()))

    assert sorted(set(without_rule(house.app))) == [
        "DELETE /tasks", "GET /forgotten", "Mount /mounted",
    ]  # fmt: skip


async def test_every_way_in_refuses_no_wrong_expired_and_revoked_keys_alike(house: House) -> None:
    expired, revoked = await house.grant(*OWNER_SCOPES), await house.grant(*OWNER_SCOPES)
    await access.revoke_many(house.recorded, [revoked.prefix], actor="test")
    rows(
        house.url,
        "UPDATE taskbell.api_key SET expires_at = clock_timestamp() WHERE prefix = %s",
        expired.prefix,
    )
    before = house.state()
    house.recorded.ran.clear()

    for way in guarded(house):
        answers = [
            await house.call(way, task_id, key)
            for key in (None, "nonsense", new_key(), expired, revoked)
            for task_id in (house.victims[0], new_task_id())
        ]
        assert {answer.status_code for answer in answers} == {401}, way
        assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}, way
        assert len({str(said(answer)) for answer in answers}) == 1, way
    assert house.recorded.ran == []
    assert house.state() == before


async def test_a_missing_scope_is_told_before_anything_is_looked_up(house: House) -> None:
    before = house.state()
    for scope in OWNER_SCOPES:
        key = await house.grant(*(each for each in OWNER_SCOPES if each != scope))
        house.recorded.ran.clear()
        for way in guarded(house):
            if way.rule.scope != scope:
                continue
            answers = [
                await house.call(way, task_id, key) for task_id in (*house.victims, new_task_id())
            ]
            assert {answer.status_code for answer in answers} == {403}, way
            assert len({str(said(answer)) for answer in answers}) == 1, way
        assert house.recorded.ran == []
    assert house.state() == before


async def test_what_a_query_says_is_known_or_refused(house: House) -> None:
    before = house.state()
    for way in guarded(house):
        if way.path == "/metrics":  # whoever scrapes it may add what it likes
            continue

        answer = await house.call(way, house.victims[0], house.admin, wati="5")

        assert answer.status_code == 422, way
        if way.method != "HEAD":
            (error,) = answer.json()["errors"]
            assert error["pointer"] == "?wati", way
    assert house.state() == before


async def test_another_owners_task_is_as_one_that_never_was(house: House) -> None:
    before = house.state()
    await house.call(reaching(house, Reach.ONE)[0], new_task_id(), house.bob)  # knows bob's key

    for way in reaching(house, Reach.ONE):
        for victim in house.victims:
            asked: list[list[Ran]] = []
            answers: list[Any] = []
            for task_id in (victim, new_task_id()):
                house.recorded.ran.clear()
                answers.append(said(await house.call(way, task_id, house.bob)))
                asked.append(list(house.recorded.ran))
            assert answers[0] == answers[1], way
            assert answers[0][0] == 404, way
            theirs, none = asked
            assert [each.statement for each in theirs] == [each.statement for each in none], way
            assert len(theirs) > 0, way
            for one, other in zip(theirs, none, strict=True):
                assert abs(pages(house.url, one) - pages(house.url, other)) <= 2, one.statement
    assert house.state() == before


async def test_what_is_listed_is_the_callers_own(house: House) -> None:
    for way in reaching(house, Reach.LISTED):
        stranger = await house.grant("read", owner="carol")
        mine = await house.call(way, house.victims[0], house.bob)
        nobodys = await house.call(way, house.victims[0], stranger)
        assert mine.status_code == 200, way
        assert said(mine) == said(nobodys), way
        assert ids_in(mine.text, house) == set(), way
        if way.method != "HEAD":
            assert ids_in((await house.call(way, house.victims[0], house.admin)).text, house), way


async def test_what_is_named_in_a_body_is_the_callers_own_or_unknown(house: House) -> None:
    before = house.state()
    for way in reaching(house, Reach.NAMED):
        for victim in house.victims:
            theirs = await house.call(way, victim, house.bob)
            none = await house.call(way, new_task_id(), house.bob)
            assert theirs.status_code < 300, way
            assert said(theirs) == said(none), way
    assert house.state() == before


async def test_what_is_made_is_the_callers_own_whatever_others_have_made(house: House) -> None:
    before = house.state()["tasks"]
    for way in reaching(house, Reach.NEW):
        key = await house.grant("submit", owner=f"maker of {way.path}")
        made = await house.call(way, new_task_id(), key)
        assert made.status_code == 201, (way, made.text)
        (own,) = rows(
            house.url, "SELECT count(*) AS n FROM taskbell.task WHERE owner_id = %s",
            f"maker of {way.path}",
        )  # fmt: skip
        assert own.n == 1, way
        assert ids_in(made.text, house) == set(), way
    assert house.state()["tasks"] == before


async def test_what_belongs_to_nobody_tells_of_no_task(house: House) -> None:
    for way in reaching(house, Reach.SHARED, Reach.PUBLIC):
        key = None if way.rule.reach is Reach.PUBLIC else house.bob
        answer = await house.call(way, house.victims[0], key)
        assert answer.status_code not in {401, 403, 404, 405, 500}, (way, answer.text)
        assert ids_in(answer.text, house) == set(), way
        assert "alice" not in answer.text, way


async def test_an_administrator_alone_reaches_every_owner(house: House) -> None:
    everything_but = await house.grant(*OWNER_SCOPES, owner="")
    for way in reaching(house, Reach.ONE):
        told = [
            (await house.call(way, victim, everything_but)).status_code for victim in house.victims
        ]
        assert set(told) == {404}, way
    for way in reaching(house, Reach.ONE):
        told = list[int]()
        for victim in house.victims:
            told.append((await house.call(way, victim, house.admin)).status_code)
            if told[-1] != 404:
                break
        assert told[-1] in {200, 202, 307, 409}, (way, told)


async def test_a_key_for_another_owner_can_do_all_this_with_its_own(house: House) -> None:
    alice = await house.grant(*OWNER_SCOPES, owner="alice")
    for way in reaching(house, Reach.ONE):
        answer = await house.call(way, house.victims[1], alice)
        assert answer.status_code in {200, 202, 307, 404, 409}, (way, answer.text)
    (deeds,) = rows(
        house.url,
        "SELECT array_agg(DISTINCT actor) AS actors FROM taskbell.audit_log"
        " WHERE action NOT LIKE 'key %%'",
    )
    assert deeds.actors in (None, [alice.prefix])


def test_the_scopes_are_those_of_the_database(database_url: str) -> None:
    (row,) = rows(
        database_url,
        "SELECT pg_get_constraintdef(oid) AS rule FROM pg_constraint "
        "WHERE conname = 'api_key_scopes'",
    )
    assert re.findall(r"'(\w+)'", row.rule) == [str(each) for each in Scope]


def ids_in(text: str, house: House) -> set[UUID]:
    """Which of alice's tasks a text tells of."""
    return {victim for victim in house.victims if str(victim) in text or victim.hex in text}


def pages(url: str, ran: Ran) -> int:
    """How many pages a statement touches, once they have been touched before."""
    if ran.statement is None:
        return 0
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + ran.statement.for_psycopg
        connection.execute(explain, ran.parameters)
        plans: list[Any] = connection.execute(explain, ran.parameters).fetchall()
        connection.rollback()
    top: dict[str, int] = plans[0][0][0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]
