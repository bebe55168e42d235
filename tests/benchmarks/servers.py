"""A Postgres and a RabbitMQ of the benchmarks' own, tuned and durable, and what is made on them."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import psycopg
from psycopg import sql

from services import Postgres, RabbitMQ, ServiceError, open_postgres, open_rabbitmq
from services.clusters import find_binaries
from taskbell.shared.database import conninfo
from taskbell.shared.migration import upgrade

SETTINGS: Final[Mapping[str, str]] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    "random_page_cost": "1.1",
    "autovacuum_naptime": "10s",
    "shared_preload_libraries": "pg_stat_statements",
}
"""What Postgres runs with, for everybody alike: durable, and tuned as its documentation says."""

# They are read once a run; the tests let them be gathered four times a second.
STATISTICS_SECONDS: Final = 1.0


@dataclass
class Servers:
    """The two servers, and fresh databases and vhosts on them."""

    postgres: Postgres
    rabbitmq: RabbitMQ
    template: str
    """The name of a database with taskbell's schema and the counters' extension."""
    pgbench: Path
    made: list[str] = field(default_factory=list[str])

    def database(self, *, migrated: bool = True) -> str:
        """Make a database; returns its URL. Peers get one without taskbell's schema."""
        name = f"bench_{uuid4().hex[:12]}"
        url = self.postgres.create_database(name, self.template if migrated else None)
        self.made.append(name)
        if not migrated:
            _count_statements(url)
        return url

    def vhost(self) -> str:
        """Make a vhost; returns its URL."""
        return self.rabbitmq.create_vhost(f"bench-{uuid4().hex[:12]}")

    def sweep(self) -> None:
        """Drop every database and vhost made so far: the next run starts alone."""
        for name in self.made:
            self.postgres.drop_database(name)
        self.made.clear()
        for vhost in set(self.rabbitmq.vhosts()) - {"/"}:
            self.rabbitmq.drop_vhost(vhost)


@contextmanager
def open_servers(binaries: Path | None = None) -> Generator[Servers]:
    """Start both; they are gone afterwards. Raises ``ServiceError``.

    ``binaries``: insist on the Postgres in that directory.
    """
    programs = find_programs(binaries)
    if programs is None:
        raise ServiceError("the benchmarks need Postgres' own binaries and pgbench: postgresql")
    with ExitStack() as stack:
        postgres = stack.enter_context(open_postgres(durable=True, binaries=programs))
        _tune(postgres)
        rabbitmq = stack.enter_context(open_rabbitmq())
        rabbitmq.gather_statistics(STATISTICS_SECONDS)
        name = f"bench_template_{uuid4().hex[:8]}"
        url = postgres.create_database(name)
        upgrade(url)
        _count_statements(url)
        yield Servers(postgres, rabbitmq, name, programs / "pgbench")


def find_programs(binaries: Path | None = None) -> Path | None:
    """Where Postgres' own programs are, pgbench among them: the given place or the newest."""
    found = find_binaries(binaries)
    return found if found is not None and (found / "pgbench").exists() else None


def _tune(postgres: Postgres) -> None:
    with psycopg.connect(conninfo(postgres.url), autocommit=True) as connection:
        for name, value in SETTINGS.items():
            connection.execute(
                sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
            )
    postgres.restart_immediately()


def _count_statements(url: str) -> None:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
