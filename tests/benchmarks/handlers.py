"""The handlers that the benchmarks run: ``taskbell consumer benchmarks.handlers:app``."""

import asyncio
from typing import Any, Final

from benchmarks.tally import tally
from taskbell.consumer import Consumer, Context

PADDING: Final = "x" * 64
"""Makes a payload of about a hundred bytes, the same for every system."""

ACCOUNTS: Final = 10_000
LEDGER: Final = """
CREATE SCHEMA bench;
CREATE TABLE bench.account (number integer PRIMARY KEY, balance bigint NOT NULL DEFAULT 0)
    WITH (fillfactor = 50);
INSERT INTO bench.account (number) SELECT generate_series(0, 9999);
"""
CHARGE: Final = "UPDATE bench.account SET balance = balance + 1 WHERE number = {number}"
_BY_PSYCOPG: Final = CHARGE.format(number="%s").encode()

app = Consumer()


def payload(number: int, sent: float | None = None) -> dict[str, object]:
    """What every benchmark's task carries."""
    return {"number": number, "sent": sent, "padding": PADDING}


@app.handler("noop", queue="bench")
async def noop(_context: Context, given: dict[str, Any]) -> None:
    """Do nothing but be counted."""
    tally().record(given["number"], given["sent"])


@app.handler("hold", queue="hold", lease=30)
async def hold(_context: Context, given: dict[str, Any]) -> None:
    """Keep a lease until the worker is stopped."""
    tally().record(given["number"])
    await asyncio.sleep(3600)


@app.handler("charge_psycopg", queue="charge_psycopg")
async def charge_psycopg(context: Context, given: dict[str, Any]) -> None:
    """Dedup key, one business UPDATE and settlement in one commit, through psycopg."""
    number = given["number"]
    tally().record(number)
    async with context.effect(key=str(number), driver="psycopg") as connection:
        await connection.execute(_BY_PSYCOPG, (number % ACCOUNTS,))
