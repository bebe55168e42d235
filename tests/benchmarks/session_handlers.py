"""The handler that writes through SQLAlchemy, apart: loading it costs a process 25 MB."""

from typing import Any, Final

from sqlalchemy import text

from benchmarks.handlers import ACCOUNTS, CHARGE
from benchmarks.tally import tally
from taskbell.consumer import Consumer, Context

_CHARGE: Final = text(CHARGE.format(number=":number"))

app = Consumer()


@app.handler("charge", queue="charge")
async def charge(context: Context, given: dict[str, Any]) -> None:
    """Dedup key, one business UPDATE and settlement in one commit, through SQLAlchemy."""
    number = given["number"]
    tally().record(number)
    async with context.effect(key=str(number)) as session:
        await session.execute(_CHARGE, {"number": number % ACCOUNTS})
