"""A user of the database for each role, with the privileges that taskbell grants and no others."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from support.commands import call
from taskbell.shared.database import conninfo
from taskbell.shared.statements import grant

ROLES: Final = (*grant.ROLES, grant.MIGRATOR)


@contextmanager
def users_of_roles(database_url: str) -> Generator[Mapping[str, str]]:
    """URLs by role, of users that are gone afterwards; the roles are made by the command."""
    prefix = f"t{uuid4().hex[:12]}"
    applied = apply(database_url, prefix)
    assert applied == 0
    names = grant.names(prefix)
    users = {role: f"{prefix}_user_{role}" for role in names}
    password = uuid4().hex
    with psycopg.connect(conninfo(database_url), autocommit=True) as owner:
        for role, user in users.items():
            owner.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}").format(
                    sql.Identifier(user), sql.Literal(password), sql.Identifier(names[role])
                )
            )
        try:
            yield {
                role: make_url(database_url)
                .set(username=user, password=password)
                .render_as_string(hide_password=False)
                for role, user in users.items()
            }
        finally:
            for name in (*users.values(), *names.values()):
                forget(owner, name)


def apply(database_url: str, prefix: str) -> int:
    """Run ``taskbell roles apply``; returns its exit code."""
    return call("roles", "apply", "--prefix", prefix, "--database-url", database_url).exit_code


def forget(owner: psycopg.Connection, name: str) -> None:
    """Drop a role; what it owned is the owner's again."""
    named = sql.Identifier(name)
    for each in ("REASSIGN OWNED BY {} TO CURRENT_USER", "DROP OWNED BY {}", "DROP ROLE {}"):
        owner.execute(sql.SQL(each).format(named))
