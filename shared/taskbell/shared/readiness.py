"""Wait for a database that is away, refuse one that is not migrated. Needs the extra ``cli``."""

import asyncio
import random

from taskbell.shared.database import Database
from taskbell.shared.events import DatabaseLost, Observer
from taskbell.shared.migration import MigrationError, SchemaState, check

_AGAIN_SECONDS = 1.0


async def found_schema(database: Database, observe: Observer) -> SchemaState:
    """Return the state of the schema as soon as the database answers."""
    while True:
        try:
            return await asyncio.to_thread(check, database.url)
        except MigrationError as error:
            observe(DatabaseLost("start", str(error)))
        await asyncio.sleep(random.uniform(0.5, 1.5) * _AGAIN_SECONDS)  # noqa: S311 - jitter
