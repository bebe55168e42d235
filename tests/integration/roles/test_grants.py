"""What each role of the database must not do, tried under its own user."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from support.commands import call, refusal
from support.users import apply, forget, users_of_roles
from support.workers import rows
from taskbell.shared import migration, roles
from taskbell.shared.database import conninfo
from taskbell.shared.rows import Task
from taskbell.shared.statements import grant

CONTENT = [f"SELECT {column} FROM taskbell.task" for column in grant.CONTENT]
DDL = [
    "ALTER TABLE taskbell.task ADD COLUMN mine text",
    "CREATE TABLE taskbell.mine (id integer)",
    "CREATE INDEX mine ON taskbell.task (type)",
    "DROP TABLE taskbell.outbox",
    "TRUNCATE taskbell.outbox",
    "UPDATE taskbell.schema_version SET version_num = '9'",
    "DELETE FROM taskbell.schema_version",
]
KEYS = [
    """INSERT INTO taskbell.api_key (prefix, key_hash, owner_id, scopes)
       VALUES ('p', decode(repeat('00', 32), 'hex'), '', '{admin}')""",
    "DELETE FROM taskbell.api_key",
    "UPDATE taskbell.api_key SET scopes = '{admin}'",
    "UPDATE taskbell.api_key SET owner_id = 'another'",
    "INSERT INTO taskbell.data_key (key_id, owner_id, wrapped) VALUES ('o-1', 'o', '')",
    "UPDATE taskbell.data_key SET wrapped = NULL, erased_at = now()",
    "DELETE FROM taskbell.data_key",
    "UPDATE taskbell.secret SET value = ''",
    "DELETE FROM taskbell.secret",
    "UPDATE taskbell.rate_limit SET rate = 1e9",
    "DELETE FROM taskbell.rate_limit",
    "UPDATE taskbell.audit_log SET actor = 'nobody'",
    "DELETE FROM taskbell.audit_log",
]
BIRTH = (
    "INSERT INTO taskbell.task (id, type, queue, payload)"
    " VALUES (gen_random_uuid(), 't', 'q', '{}')"
)
ENDED_BIRTH = BIRTH.replace("queue,", "queue, status, finished_at,").replace(
    "'q',", "'q', 'COMPLETED', now(),"
)
FORBIDDEN: Mapping[str, list[str]] = {
    "producer": [
        *CONTENT,
        "SELECT status FROM taskbell.task",
        "UPDATE taskbell.task SET status = 'CANCELLED'",
        "DELETE FROM taskbell.task",
        "SELECT task_id FROM taskbell.outbox",
        "DELETE FROM taskbell.outbox",
        "SELECT task_id FROM taskbell.lease",
        "SELECT last_error FROM taskbell.dead_letter",
        "SELECT prefix FROM taskbell.api_key",
        "SELECT value FROM taskbell.secret",
        "SELECT actor FROM taskbell.audit_log",
        "INSERT INTO taskbell.audit_log (actor, action, subject) VALUES ('a', 'b', 'c')",
        "UPDATE taskbell.queue SET max_depth = NULL",
        ENDED_BIRTH,
    ],
    "relay": [
        *CONTENT,
        BIRTH,
        "UPDATE taskbell.task SET payload = '{}'",
        "UPDATE taskbell.task SET owner_id = 'another'",
        "DELETE FROM taskbell.outbox",
        """INSERT INTO taskbell.lease (task_id, expires_at, attempt, queue, worker_id)
           VALUES (gen_random_uuid(), now(), 1, 'q', 'w')""",
        "SELECT traceback FROM taskbell.failure",
        "SELECT prefix FROM taskbell.api_key",
        "SELECT wrapped FROM taskbell.data_key",
        "SELECT value FROM taskbell.secret",
        "INSERT INTO taskbell.audit_log (actor, action, subject) VALUES ('a', 'b', 'c')",
    ],
    "consumer": [
        "SELECT result FROM taskbell.task",
        "UPDATE taskbell.task SET owner_id = 'another'",
        "UPDATE taskbell.task SET payload = '{}'",
        "UPDATE taskbell.task SET payload_sealed = ''",
        "UPDATE taskbell.task SET payload_location = ''",
        "UPDATE taskbell.task SET max_attempts = 1000",
        "SELECT prefix FROM taskbell.api_key",
        "SELECT value FROM taskbell.secret",
        "SELECT actor FROM taskbell.audit_log",
        "INSERT INTO taskbell.audit_log (actor, action, subject) VALUES ('a', 'b', 'c')",
        ENDED_BIRTH,
    ],
    "api": [
        "DELETE FROM taskbell.task",
        "UPDATE taskbell.task SET payload = '{}'",
        "UPDATE taskbell.task SET owner_id = 'another'",
        "UPDATE taskbell.task SET result = '{}'",
        "SELECT actor FROM taskbell.audit_log",
        "DELETE FROM taskbell.lease",
        "UPDATE taskbell.lease SET expires_at = now()",
        "UPDATE taskbell.api_key SET expires_at = NULL",
        "UPDATE taskbell.api_key SET revoked_at = NULL",
        "UPDATE taskbell.queue SET max_depth = NULL",
        "DELETE FROM taskbell.queue",
        ENDED_BIRTH,
    ],
}


@pytest.mark.parametrize("role", FORBIDDEN)
def test_a_role_must_not(lasting_users: Mapping[str, str], role: str) -> None:
    allowed: list[str] = []
    with psycopg.connect(conninfo(lasting_users[role]), autocommit=True) as connection:
        for statement in (*FORBIDDEN[role], *KEYS, *DDL):
            try:
                connection.execute(statement.encode())
            except psycopg.errors.InsufficientPrivilege:
                continue
            allowed.append(statement)

    assert allowed == []


def test_whoever_has_no_role_sees_nothing(database_url: str) -> None:
    with psycopg.connect(conninfo(database_url)) as owner:
        stranger = f"t{uuid4().hex}"
        owner.execute(f"CREATE ROLE {stranger}".encode())
        owner.execute(f"SET LOCAL ROLE {stranger}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute("SELECT 1 FROM taskbell.queue")
        owner.rollback()


def test_every_column_of_a_task_is_content_or_state() -> None:
    assert sorted(grant.CONTENT + grant.STATE) == sorted(Task.__table__.columns.keys())


def _granted(url: str) -> list[Any]:
    return rows(
        url,
        """SELECT c.relname, CAST(c.relacl AS text) AS acl, CAST(c.relowner AS regrole) AS owner,
                  (SELECT string_agg(a.attname || CAST(a.attacl AS text), ' ' ORDER BY a.attname)
                   FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL) AS columns
           FROM pg_class c WHERE c.relnamespace = 'taskbell'::regnamespace ORDER BY 1""",
    )


def test_it_may_be_applied_twice(database_url: str) -> None:
    prefix = f"t{uuid4().hex[:12]}"
    with users_of_roles(database_url):
        pass  # what another prefix was granted is gone with it
    assert apply(database_url, prefix) == 0
    first = _granted(database_url)
    assert apply(database_url, prefix) == 0
    second = _granted(database_url)
    _drop(database_url, prefix)

    assert second == first


def test_what_is_not_granted_any_more_is_revoked(
    database_url: str, users: Mapping[str, str]
) -> None:
    first = _granted(database_url)
    role = _role_of(users["relay"])
    rows(database_url, f"GRANT DELETE, SELECT ON taskbell.api_key TO {role}")
    rows(database_url, f"GRANT UPDATE (payload) ON taskbell.task TO {role}")

    assert apply(database_url, role.removesuffix("_relay")) == 0
    assert _granted(database_url) == first


def test_the_script_does_the_same_by_hand(database_url: str) -> None:
    prefix = f"t{uuid4().hex[:12]}"
    printed = call("roles", "apply", "--sql", "--prefix", prefix).stdout
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        connection.execute(printed.encode())
    by_hand = _granted(database_url)
    assert apply(database_url, prefix) == 0
    by_command = _granted(database_url)
    _drop(database_url, prefix)

    assert printed == roles.sql(prefix)
    assert by_hand == by_command


def test_the_migrator_migrates_and_grants_without_being_a_superuser(
    database_url: str, users: Mapping[str, str]
) -> None:
    url = users["migrator"]
    first = _granted(database_url)
    prefix = _role_of(url).removesuffix("_migrator")

    migration.upgrade(url)
    rows(url, "ALTER TABLE taskbell.task ADD COLUMN note text")
    rows(url, "CREATE TABLE taskbell.made_by_a_migration (id integer)")
    assert apply(url, prefix) == 0

    found = {each.relname: each for each in _granted(database_url)}
    assert str(found.pop("made_by_a_migration").owner) == f"{prefix}_migrator"
    assert list(found.values()) == first


@pytest.mark.parametrize("prefix", ["", "9", "a-b", "Taskbell", "x" * 41, 'a"; DROP ROLE b; --'])
def test_a_prefix_is_a_plain_name(prefix: str) -> None:
    result = call("roles", "apply", "--sql", "--prefix", prefix)

    assert (result.exit_code, result.stdout) == (2, "")


def test_a_database_that_is_not_migrated_is_left_alone(empty_database_url: str) -> None:
    prefix = f"t{uuid4().hex[:12]}"
    given = ("roles", "apply", "--prefix", prefix, "--database-url", empty_database_url)

    assert "taskbell migrate" in refusal(*given, code=1)
    made = "SELECT 1 FROM pg_roles WHERE rolname LIKE %s"
    assert rows(empty_database_url, made, f"{prefix}%") == []


def _role_of(url: str) -> str:
    """The role that the user of this URL is a member of."""
    (found,) = rows(
        url, "SELECT CAST(roleid AS regrole) AS role FROM pg_auth_members"
        " WHERE member = CAST(current_user AS regrole)",
    )  # fmt: skip
    return str(found.role)


def _drop(url: str, prefix: str) -> None:
    with psycopg.connect(conninfo(url), autocommit=True) as owner:
        for name in grant.names(prefix).values():
            forget(owner, name)
