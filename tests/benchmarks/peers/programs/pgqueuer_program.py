import asyncio
import json
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.peers.programs import frame
from benchmarks.tally import tally


async def work(connection):
    queuer = PgQueuer.from_asyncpg_connection(connection)

    @queuer.entrypoint("noop")
    async def noop(job):
        given = json.loads(job.payload)
        tally().record(given["number"], given["sent"])

    if frame.tuned():
        await queuer.qm.run(batch_size=100, dequeue_timeout=timedelta(seconds=30))
    else:
        await queuer.qm.run()


async def main():
    kind, count = frame.arguments()
    connection = await asyncpg.connect(frame.database_url())
    queries = Queries(AsyncpgDriver(connection))
    if kind == "prepare":
        await queries.install()
    elif kind == "work":
        await work(connection)
    elif kind == "preload":
        for chunk in frame.chunks(count):
            bodies = [json.dumps(each).encode() for each in chunk]
            await queries.enqueue(["noop"] * len(bodies), bodies, [0] * len(bodies))
    else:
        await frame.produce(
            kind, count, lambda given: queries.enqueue("noop", json.dumps(given).encode())
        )


if __name__ == "__main__":
    if frame.tuned():
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())
