"""Somebody who sleeps until the bell rings."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from support.workers import rows
from taskbell.shared.database import conninfo


@contextmanager
def woken(url: str) -> Generator[None]:
    """What is done meanwhile rings the bell for one who sleeps."""
    rows(
        url,
        "INSERT INTO taskbell.bell VALUES ('sleeper', clock_timestamp(), "
        "clock_timestamp() + interval '1 minute')",
    )
    with psycopg.connect(conninfo(url), autocommit=True) as sleeper:
        sleeper.execute("LISTEN taskbell")
        yield

        assert len(list(sleeper.notifies(timeout=20, stop_after=1))) == 1
