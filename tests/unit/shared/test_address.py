"""A URL that can never work is refused before anything starts, and no part of it is repeated."""

import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import ValidationError
from sqlalchemy import URL

from taskbell.shared.address import conninfo, reason, where
from taskbell.shared.settings import Settings, sentence

DATABASE = "postgresql://app:hunter2@host/db"


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "host=localhost password=hunter2",
        "mysql://app:hunter2@host/db",
        "postgresql+asyncpg://app:hunter2@host/db",
        "postgresql://app:hunt@er2@host/db",
        "postgresql://app:hunt/er2@host/db",
        "postgresql://app:hunt%er2@host/db",
        "postgresql://app:1/hunter2@host/db",
        "postgresql://app:hunter2@host:port/db",
        "postgresql://app:hunter2@host:70000/db",
        "postgresql://app:hunter2@host/db\n",
        "postgresql://app:hunter2\udcff@host/db",
        "postgresql://app:hunter2@host/db?no_such_option=1",
        "postgresql://app:hunter2@host/db?sslmode=hunter2",
        "postgresql://app:hunter2@host/db?connect_timeout=hunter2",
    ],
)
def test_what_is_no_url_of_a_database_is_refused_in_one_line(url: str) -> None:
    told = refusal(database_url=url)

    assert told.startswith("TASKBELL_DATABASE_URL: ")
    assert not any(part in told for part in ("hunter2", "er2", "hunt", "\n", "port/", "no_such"))


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "http://app:hunter2@host/",
        "amqp://app:hunter2@/vhost",
        "amqp://app:hunter2@host:port/vhost",
        "amqp://app:hunt/er2@host/vhost",
        "amqp://app:1/er2@host/vhost",
        "amqp://app:1#er2@host/vhost",
        "amqp://[app:hunter2@host/vhost",
        "amqp://app:hunter2@host/vhost\n",
    ],
)
def test_what_is_no_url_of_a_broker_is_refused_in_one_line(url: str) -> None:
    told = refusal(database_url=DATABASE, amqp_url=url)

    assert told.startswith("TASKBELL_AMQP_URL: ")
    assert not any(part in told for part in ("hunter2", "er2", "hunt", "\n"))


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "/db",
        "app@host",
        "app:s3cr%40t@host:5432/db?sslmode=require&options=-c%20geqo%3Doff",
        "one:5432,two:5433/db?target_session_attrs=read-write",
        "/db?host=/run/postgresql&application_name=a@b",
    ],
)
def test_what_libpq_connects_by_is_taken_as_it_is(rest: str) -> None:
    assert conninfo(f"postgresql+psycopg://{rest}") == f"postgresql://{rest}"
    assert Settings.read(database_url=f"postgres://{rest}").database.url == f"postgres://{rest}"


def test_a_blank_that_sqlalchemy_writes_reaches_libpq_as_one() -> None:
    url = URL.create("postgresql+psycopg", query={"options": "-c lock_timeout=5s"})

    given = conninfo_to_dict(conninfo(url.render_as_string(hide_password=False)))

    assert given["options"] == "-c lock_timeout=5s"


def test_a_plus_of_libpqs_own_form_stays_one() -> None:
    assert conninfo("postgresql://host/db?application_name=a+b").endswith("=a+b")


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("postgresql://u:g%20m@h/x", "g m"),
        ("postgresql://u:g%20m@h/x", "g%20m"),
        ("postgresql://u@h/x?password=g%20m", "g m"),
    ],
)
def test_what_a_database_answers_is_told_in_a_line_without_the_password(
    url: str, secret: str
) -> None:
    assert reason(ConnectionError(f" {secret} is wrong\nmore"), url) == "*** is wrong"


def test_a_database_is_named_without_its_password() -> None:
    assert where(DATABASE) == "host:default port/db"


@pytest.mark.parametrize("days", ["inf", "nan", 0, 36_501])
def test_a_retention_that_no_calendar_holds_is_refused(days: object) -> None:
    assert "TASKBELL_RETENTION_DAYS" in refusal(database_url=DATABASE, retention_days=days)


def refusal(**given: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Settings.read(**given)
    return sentence(caught.value)
