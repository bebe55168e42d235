"""Operators set how many tasks a queue holds and how fast owners and keys may submit."""

import pytest

from support.commands import call, refusal, told
from support.workers import rows
from taskbell.shared import queues, rates
from taskbell.shared.database import DedicatedConnection


async def test_a_new_bucket_is_full_and_one_that_is_there_keeps_what_fits(
    database_url: str, connection: DedicatedConnection
) -> None:
    await rates.set_rate(connection, "owner", "o", rate=1e-9, burst=10, actor="ann")
    (new,) = await rates.list_many(connection)
    rows(database_url, "UPDATE taskbell.rate_limit SET tokens = 7")
    await rates.set_rate(connection, "owner", "o", rate=1e-9, burst=20, actor="ann")
    (larger,) = await rates.list_many(connection)
    await rates.set_rate(connection, "owner", "o", rate=2e-9, burst=5, actor="ann")
    (smaller,) = await rates.list_many(connection)

    assert (new.burst, new.tokens) == (10, 10)
    assert (larger.burst, round(larger.tokens, 3)) == (20, 7)
    assert (smaller.burst, smaller.rate, smaller.tokens) == (5, 2e-9, 5)


async def test_a_bucket_fills_at_its_rate_up_to_its_burst(
    database_url: str, connection: DedicatedConnection
) -> None:
    await rates.set_rate(connection, "key", "k", rate=0.001, burst=10, actor="ann")
    seen: list[float] = []
    for seconds in (0, 4000, 10**9):
        rows(
            database_url,
            "UPDATE taskbell.rate_limit SET tokens = 1,"
            " refilled_at = clock_timestamp() - make_interval(secs => %s)",
            seconds,
        )
        seen += [each.tokens for each in await rates.list_many(connection)]

    # A minute on a slow machine brings a twentieth of a token.
    assert seen == [pytest.approx(1, abs=0.1), pytest.approx(5, abs=0.1), 10]


@pytest.mark.parametrize(
    ("name", "rate", "burst"),
    [
        ("o", 0, 1), ("o", -1, 1), ("o", float("nan"), 1), ("o", float("inf"), 1), ("o", 2e9, 1),
        ("o", 1, 0.5), ("o", 1, float("nan")), ("o", 1, 2e9), ("o" * 201, 1, 1), ("\x00", 1, 1),
    ],
)  # fmt: skip
async def test_a_limit_nobody_could_keep_is_refused(
    connection: DedicatedConnection, name: str, rate: float, burst: float
) -> None:
    with pytest.raises(ValueError, match=r"name|rate|burst"):
        await rates.set_rate(connection, "owner", name, rate=rate, burst=burst, actor="ann")

    assert await rates.list_many(connection) == []


def test_rates_are_set_listed_and_removed_by_command(url: str) -> None:
    key = told("limits", "set", "--key", "tbk_1", "--rate", 2.5, "--burst", 10, "--actor", "ann")
    owner = call("limits", "set", "--owner", "", "--rate", 1000, "--burst", 2000)
    listed = told("limits", "list")
    removed = call("limits", "remove", "--key", "tbk_1", "--actor", "ann")
    again = call("limits", "remove", "--key", "tbk_1")
    log = rows(url, "SELECT action, subject, detail FROM taskbell.audit_log WHERE actor = 'ann'")

    assert key == {"scope": "key", "name": "tbk_1", "rate": 2.5, "burst": 10}
    assert owner.stdout == "owner : 1000 a second, 2000 at once\n"
    assert [(each["scope"], each["name"]) for each in listed] == [("owner", ""), ("key", "tbk_1")]
    assert removed.stdout == "key tbk_1: not limited\n"
    assert (again.exit_code, again.stderr) == (1, "key tbk_1 has no rate\n")
    assert log == [
        ("limit", "key tbk_1", {"rate": 2.5, "burst": 10}),
        ("unlimit", "key tbk_1", {}),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["limits", "set", "--rate", 1, "--burst", 1],
        ["limits", "set", "--owner", "o", "--key", "k", "--rate", 1, "--burst", 1],
        ["limits", "set", "--owner", "o", "--rate", 0, "--burst", 1],
        ["limits", "set", "--owner", "o", "--rate", 1, "--burst", "inf"],
        ["limits", "remove"],
        ["queues", "set", "q"],
        ["queues", "set", "q", "--max-depth", "-1"],
        ["queues", "set", "q", "--max-depth", "many"],
        ["queues", "set", "q", "--max-depth", "9" * 30],
    ],
)
@pytest.mark.usefixtures("url")
def test_what_cannot_be_set_is_one_line_and_code_2(arguments: list[object]) -> None:
    assert refusal(*arguments, code=2)


async def test_a_queue_is_told_how_many_tasks_fill_it(
    url: str, connection: DedicatedConnection
) -> None:
    await queues.set_max_depth(connection, "q", 0, actor="ann")
    await queues.set_max_depth(connection, "q", 5, actor="ann")
    (bounded,) = await queues.list_many(connection)
    await queues.set_max_depth(connection, "q", None, actor="bob")
    (free,) = await queues.list_many(connection)
    log = rows(url, "SELECT actor, action, detail FROM taskbell.audit_log ORDER BY id")

    assert (bounded.max_depth, free.max_depth) == (5, None)
    assert log == [
        ("ann", "set", {"max_depth": 0}),
        ("ann", "set", {"max_depth": 5}),
        ("bob", "set", {"max_depth": None}),
    ]


def test_one_command_sets_what_is_named_and_leaves_the_rest(url: str) -> None:
    full = call("queues", "set", "q", "--max-depth", 100)
    both = told("queues", "set", "q", "--max-depth", "none", "--on-dead", "hold")
    call("queues", "set", "q", "--max-depth", 7)
    (listed,) = told("queues", "list")

    assert full.stdout == "q: full at 100\n"
    assert both == {"queue": "q", "on_dead": "hold", "held": 0, "max_depth": None}
    assert (listed["on_dead"], listed["max_depth"]) == ("hold", 7)
    assert len(rows(url, "SELECT id FROM taskbell.audit_log")) == 4
