"""Wait for a database that is away, and say whether it is migrated."""

import asyncio
import random

from taskbell.shared.database import Database, DedicatedConnection
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.events import Observer
from taskbell.shared.outage import Outage
from taskbell.shared.schema import SchemaState, compare
from taskbell.shared.statements import schema

_AGAIN_SECONDS = 1.0


async def found_schema(
    database: Database, observe: Observer, stopping: asyncio.Event
) -> SchemaState | None:
    """Return the state of the schema as soon as the database answers; None: stopped before."""
    looking = asyncio.ensure_future(_found(database, observe))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({looking, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return looking.result() if looking.done() else None
    finally:
        looking.cancel()
        stopped.cancel()


async def _found(database: Database, observe: Observer) -> SchemaState:
    connection = DedicatedConnection(database, "start")
    outage = Outage("start", observe)
    try:
        while True:
            try:
                found = await _look(connection)
            except DatabaseAway as error:
                outage.lost(error)
            else:
                outage.found()
                return found
            await asyncio.sleep(random.uniform(0.5, 1.5) * _AGAIN_SECONDS)  # noqa: S311 - jitter
    finally:
        await connection.close()


async def _look(connection: DedicatedConnection) -> SchemaState:
    if (await connection.run(schema.VERSION_TABLE))[0].found is None:
        return compare(None)
    rows = await connection.run(schema.REVISION)
    return compare(rows[0].revision if rows else None)
