"""A Postgres of our own: databases are copied quickly and survive a crash of the server."""

import psycopg
import pytest

from services import Postgres, ServiceError
from support.workers import rows
from taskbell.shared.database import conninfo

KEPT = "SELECT number FROM kept"


def test_a_fresh_database_has_the_schema_and_no_tasks(database_url: str) -> None:
    assert rows(database_url, "SELECT count(*) FROM taskbell.task") == [(0,)]


def test_databases_of_one_template_do_not_see_each_other(postgres_server: Postgres) -> None:
    template = postgres_server.create_database("services_template")
    rows(template, "CREATE TABLE kept (number integer)")
    first = postgres_server.create_database("services_first", "services_template")
    second = postgres_server.create_database("services_second", "services_template")

    rows(first, "INSERT INTO kept VALUES (1)")

    assert (rows(first, KEPT), rows(second, KEPT)) == ([(1,)], [])
    for name in ("services_first", "services_second", "services_template"):
        postgres_server.drop_database(name)


def test_a_database_is_dropped_under_the_feet_of_whoever_uses_it(
    postgres_server: Postgres,
) -> None:
    url = conninfo(postgres_server.create_database("services_used"))

    with psycopg.connect(url) as connection:
        postgres_server.drop_database("services_used")

        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_what_was_committed_survives_an_immediate_restart_at_the_same_address(
    private_postgres: Postgres, private_database_url: str
) -> None:
    rows(private_database_url, "CREATE TABLE kept (number integer)")
    rows(private_database_url, "INSERT INTO kept VALUES (7)")
    with psycopg.connect(conninfo(private_database_url)) as connection:
        private_postgres.restart_immediately()

        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")

    assert rows(private_database_url, KEPT) == [(7,)]


def test_a_server_we_did_not_start_is_never_restarted(postgres_server: Postgres) -> None:
    with pytest.raises(ServiceError, match="not started by us"):
        postgres_server.restart_immediately()


def test_no_password_is_shown(postgres_server: Postgres) -> None:
    assert ":***@" in repr(postgres_server)
