"""What one trivial statement costs through each driver: ``python -m benchmarks.roundtrips COUNT``.

Says as JSON, by driver, the median seconds and the CPU seconds of one. Nothing of taskbell is in
it: this is what no producer and no effect can be quicker than.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from taskbell.shared.database import conninfo

PSYCOPG: Final = "psycopg"
PSYCOPG_ASYNC: Final = "psycopg, asyncio"
SESSION: Final = "Session"
SESSION_ASYNC: Final = "AsyncSession"
_WARM: Final = 20
_SELECT: Final = b"SELECT %s::int"
_CLAUSE: Final = text("SELECT CAST(:number AS int)")

Cost = dict[str, float]


def main() -> None:
    """Measure all four."""
    url, count = os.environ["TASKBELL_DATABASE_URL"], int(sys.argv[1])
    costs = {PSYCOPG: _psycopg(url, count), SESSION: _session(url, count)}
    costs |= asyncio.run(_awaited(url, count))
    sys.stdout.write(json.dumps(costs) + "\n")


def _psycopg(url: str, count: int) -> Cost:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        return _timed(count, lambda n: connection.execute(_SELECT, (n,)).fetchall())


def _session(url: str, count: int) -> Cost:
    with Session(create_engine(url)) as session:
        return _timed(count, lambda n: session.execute(_CLAUSE, {"number": n}).all())


async def _awaited(url: str, count: int) -> dict[str, Cost]:
    connection: psycopg.AsyncConnection[Any]
    connection = await psycopg.AsyncConnection.connect(conninfo(url), autocommit=True)
    session = AsyncSession(create_async_engine(url))

    async def by_psycopg(number: int) -> object:
        return await (await connection.execute(_SELECT, (number,))).fetchall()

    async def by_session(number: int) -> object:
        return (await session.execute(_CLAUSE, {"number": number})).all()

    async with connection, session:
        return {
            PSYCOPG_ASYNC: await _timed_async(count, by_psycopg),
            SESSION_ASYNC: await _timed_async(count, by_session),
        }


def _timed(count: int, call: Callable[[int], object]) -> Cost:
    for number in range(_WARM):
        call(number)
    took: list[float] = []
    cpu = time.process_time()
    for number in range(count):
        begun = time.perf_counter()
        call(number)
        took.append(time.perf_counter() - begun)
    return _cost(took, time.process_time() - cpu)


async def _timed_async(count: int, call: Callable[[int], Awaitable[object]]) -> Cost:
    for number in range(_WARM):
        await call(number)
    took: list[float] = []
    cpu = time.process_time()
    for number in range(count):
        begun = time.perf_counter()
        await call(number)
        took.append(time.perf_counter() - begun)
    return _cost(took, time.process_time() - cpu)


def _cost(took: list[float], cpu: float) -> Cost:
    return {"median": statistics.median(took), "cpu": cpu / len(took)}


if __name__ == "__main__":
    main()
