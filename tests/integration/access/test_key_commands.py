"""``taskbell keys``: what it prints, what it writes down, and what it never does."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from services import Pooler
from support import commands
from support.workers import rows
from taskbell.shared.access import digest_of, is_key, new_key

call = partial(commands.call, "keys")
told = partial(commands.told, "keys")


def create(*more: object) -> Any:
    return told("create", "--owner", "alice", "--scope", "read", "--actor", "ann", *more)


def deeds(url: str) -> list[tuple[str, str, str]]:
    log = rows(url, "SELECT actor, action, subject FROM taskbell.audit_log ORDER BY id")
    return [(row.actor, row.action, row.subject) for row in log]


def test_a_key_is_shown_once_and_its_digest_is_kept(url: str) -> None:
    made = create("--scope", "submit", "--label", "the shop", "--expires", "90d")

    assert is_key(made["key"])
    assert made["sentence"] == "this is the only time the key is shown"
    (row,) = rows(
        url,
        "SELECT *, extract(epoch FROM expires_at - created_at) / 86400 AS days"
        " FROM taskbell.api_key",
    )
    assert bytes(row.key_hash) == digest_of(made["key"])
    assert (row.prefix, row.owner_id, row.label) == (made["prefix"], "alice", "the shop")
    assert row.scopes == ["submit", "read"]
    assert float(row.days) == pytest.approx(90, abs=0.1)
    assert deeds(url) == [("ann", "key create", made["prefix"])]


def test_people_get_the_key_on_a_line_of_its_own(url: str) -> None:
    result = call("create", "--owner", "", "--scope", "admin")

    (line,) = [line for line in result.stdout.splitlines() if line.startswith("key ")]
    assert is_key(line.split()[-1])
    assert rows(url, "SELECT owner_id FROM taskbell.api_key")[0].owner_id == ""


def test_a_key_is_found_nowhere_but_at_its_creation(url: str) -> None:
    made = create()
    rotated = told("rotate", made["prefix"])
    shown = "".join(
        call(*command).output
        for command in (
            ["list"], ["list", "-o", "json"], ["show", made["prefix"]],
            ["revoke", made["prefix"]], ["show", made["prefix"], "-o", "json"],
        )
    )  # fmt: skip
    (dump,) = rows(
        url,
        "SELECT concat((SELECT jsonb_agg(k) FROM taskbell.api_key k),"
        " (SELECT jsonb_agg(a) FROM taskbell.audit_log a)) AS everything",
    )

    for key in (made["key"], rotated["key"]):
        secret = key.rpartition("tbk_")[2][9:]
        assert secret not in shown + dump.everything
        assert made["prefix"] in shown


def test_a_rate_is_set_with_the_key_and_goes_with_it(url: str) -> None:
    made = create("--rate", 5, "--burst", 10)
    rotated = told("rotate", made["prefix"], "--overlap", "0s")

    limits = rows(url, "SELECT scope, name, rate, burst, tokens FROM taskbell.rate_limit")

    assert {tuple(row) for row in limits} == {
        ("key", made["prefix"], 5, 10, 10), ("key", rotated["prefix"], 5, 10, 10),
    }  # fmt: skip
    assert told("show", made["prefix"])["state"] == "expired"
    assert deeds(url)[-1][1:] == ("key rotate", made["prefix"])


def test_a_key_that_ends_is_followed_by_one_that_ends_too(url: str) -> None:
    made = create("--expires", "1h")

    asked = call("rotate", made["prefix"])
    done = told("rotate", made["prefix"], "--expires", "30d", "--overlap", "10m")

    assert (asked.exit_code, asked.stderr) == (
        2, f"{made['prefix']} expires: say by --expires how long the new one is good\n",
    )  # fmt: skip
    (row,) = rows(
        url,
        "SELECT extract(epoch FROM expires_at - clock_timestamp()) AS left"
        " FROM taskbell.api_key WHERE prefix = %s",
        made["prefix"],
    )
    assert float(row.left) == pytest.approx(600, abs=120)
    assert done["old"] == made["prefix"]


def test_keys_are_listed_the_newest_first_and_of_one_owner(url: str) -> None:
    first, second = create(), create()
    rows(url, "UPDATE taskbell.api_key SET owner_id = 'bob' WHERE prefix = %s", second["prefix"])

    listed = [key["prefix"] for key in told("list")]
    of_bob = told("list", "--owner", "bob")

    assert listed == [second["prefix"], first["prefix"]]
    assert [(key["prefix"], key["state"]) for key in of_bob] == [(second["prefix"], "good")]
    assert "key_hash" not in of_bob[0]
    assert first["prefix"] in call("list").stdout


def test_revoking_tells_what_it_did_and_many_need_a_yes(url: str) -> None:
    first, second = create()["prefix"], create()["prefix"]

    asked = call("revoke", first, second)
    done = told("revoke", first, second, "--yes")
    again = call("revoke", first)

    assert (asked.exit_code, asked.stderr) == (2, "this would revoke 2: repeat it with --yes\n")
    assert done == {"revoked": sorted([first, second]), "not_revoked": 0}
    assert (again.exit_code, again.stdout) == (1, "0 revoked, 1 unknown or revoked before\n")
    assert [deed[1] for deed in deeds(url)].count("key revoke") == 2


UNKNOWN = "tbk_00000000"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["show", UNKNOWN], 1, f"there is no key {UNKNOWN}"),
        (["rotate", UNKNOWN], 1, f"there is no key {UNKNOWN}"),
        (["create", "--owner", "a", "--scope", "read", "--expires", "soon"], 2, "no span of time"),
        (["create", "--owner", "a", "--scope", "read", "--expires", "0d"], 2, "a key's life"),
        (["create", "--owner", "a", "--scope", "read", "--rate", "1"], 2, "both or neither"),
        (["create", "--owner", "x" * 201, "--scope", "read"], 2, "owner: one line"),
    ],
)
@pytest.mark.usefixtures("url")
def test_what_cannot_be_done_is_one_line(arguments: list[object], code: int, sentence: str) -> None:
    assert sentence in commands.refusal("keys", *arguments, code=code)


@pytest.mark.parametrize("command", ["show", "rotate", "revoke"])
@pytest.mark.usefixtures("url")
def test_a_whole_key_pasted_by_mistake_is_neither_looked_up_nor_repeated(command: str) -> None:
    key = new_key().text

    for pasted in (key, key[:-1]):
        result = call(command, pasted)

        assert result.exit_code == 2
        assert "a key is named by its prefix" in result.stderr
        assert pasted not in result.output


def test_an_ended_key_is_not_rotated(url: str) -> None:
    made = create()["prefix"]
    call("revoke", made)

    result = call("rotate", made)

    assert (result.exit_code, result.stderr) == (
        1, f"{made} is revoked: make another key instead\n",
    )  # fmt: skip
    assert len(rows(url, "SELECT prefix FROM taskbell.api_key")) == 1


def test_the_commands_work_through_a_pooler(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Pooler(url) as pooler:
        database = make_url(url).database or ""
        monkeypatch.setenv("TASKBELL_DATABASE_URL", pooler.url_of(database))
        made = create("--rate", 5, "--burst", 10)
        rotated = told("rotate", made["prefix"])
        told("revoke", rotated["prefix"])
        listed = told("list")

    assert [key["state"] for key in listed] == ["revoked", "good"]
