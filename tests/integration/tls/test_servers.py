"""Our connections trust the server they were told to, and no other that answers in its place."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from sqlalchemy.engine import make_url

from integration.tls.conftest import POSTGRES_NAME, RABBITMQ_NAME
from services import Postgres, RabbitMQ
from services.guarded import LOOPBACK
from support.authority import Authority
from taskbell.consumer.link import Link
from taskbell.relay import broker
from taskbell.shared import migration
from taskbell.shared.amqp import BrokerAway
from taskbell.shared.database import Database, conninfo
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.ids import new_worker_id


def postgres_url(server: Postgres, name: str, trusted: Authority) -> str:
    """A URL that insists on this name and on this authority."""
    query = {"hostaddr": LOOPBACK, "sslmode": "verify-full", "sslrootcert": str(trusted.path)}
    url = make_url(server.url).set(host=name).update_query_dict(query)
    return url.render_as_string(hide_password=False)


def rabbitmq_url(server: RabbitMQ, name: str, trusted: Authority) -> str:
    """The same for RabbitMQ; it verifies unless it is told not to."""
    parts = urlsplit(server.url)
    login, _, address = parts.netloc.rpartition("@")
    port = address.rpartition(":")[2]
    return f"amqps://{login}@{name}:{port}/%2F?cafile={quote(str(trusted.path), safe='')}"


async def test_postgres_is_trusted_by_its_authority_and_its_name(
    tls_postgres: Postgres, authority: Authority
) -> None:
    database = Database(postgres_url(tls_postgres, POSTGRES_NAME, authority))
    async with await database.connect("test") as connection:
        cursor = await connection.execute(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        )
        assert (await cursor.fetchone())[0] is True  # type: ignore[index]


async def test_postgres_of_another_authority_is_refused(
    tls_postgres: Postgres, another: Authority
) -> None:
    url = postgres_url(tls_postgres, POSTGRES_NAME, another)
    with pytest.raises(DatabaseAway, match="certificate verify failed") as refusal:
        await Database(url).connect("test")
    with pytest.raises(DatabaseAway, match="certificate verify failed"):
        Database(url).connect_blocking("test")
    with pytest.raises(migration.MigrationError, match="certificate verify failed"):
        migration.check(url)

    assert str(make_url(url).password) not in str(refusal.value)


async def test_postgres_of_another_name_is_refused(
    tls_postgres: Postgres, authority: Authority
) -> None:
    url = postgres_url(tls_postgres, "other.taskbell.example", authority)
    with pytest.raises(DatabaseAway, match="does not match"):
        await Database(url).connect("test")


def test_postgres_is_reached_in_the_clear_by_nobody_who_insists(
    postgres_server: Postgres, authority: Authority
) -> None:
    url = postgres_url(postgres_server, POSTGRES_NAME, authority)
    with pytest.raises(psycopg.OperationalError, match="does not support SSL"):
        psycopg.connect(conninfo(url))


async def _relays(url: str) -> None:
    await broker.close(await broker.connect(url, "relay", 10.0))


async def _consumers(url: str) -> None:
    link = await Link.open(url, new_worker_id("consumer"), lambda _: None, lambda: None)
    await link.close()


CLIENTS = pytest.mark.parametrize("connect", [_relays, _consumers], ids=["relay", "consumer"])
Connect = Callable[[str], Awaitable[None]]


@CLIENTS
async def test_rabbitmq_is_trusted_by_its_authority_and_its_name(
    tls_rabbitmq: RabbitMQ, authority: Authority, connect: Connect
) -> None:
    await connect(rabbitmq_url(tls_rabbitmq, RABBITMQ_NAME, authority))


@CLIENTS
async def test_rabbitmq_of_another_authority_is_refused(
    tls_rabbitmq: RabbitMQ, another: Authority, connect: Connect
) -> None:
    with pytest.raises(BrokerAway, match="CERTIFICATE_VERIFY_FAILED"):
        await connect(rabbitmq_url(tls_rabbitmq, RABBITMQ_NAME, another))


@CLIENTS
async def test_rabbitmq_of_another_name_is_refused(
    tls_rabbitmq: RabbitMQ, authority: Authority, connect: Connect
) -> None:
    with pytest.raises(BrokerAway, match="IP address mismatch"):
        await connect(rabbitmq_url(tls_rabbitmq, LOOPBACK, authority))
