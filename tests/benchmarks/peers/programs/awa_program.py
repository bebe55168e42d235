import asyncio
import signal
from dataclasses import dataclass

from awa import AsyncClient

from benchmarks.peers.programs import frame
from benchmarks.tally import tally


@dataclass
class Noop:
    number: int
    sent: float | None
    padding: str


async def work(client):
    @client.task(Noop, queue="bench")
    async def noop(job):
        tally().record(job.args.number, job.args.sent)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await client.start([("bench", 500 if frame.tuned() else 50)])
    await stop.wait()
    await client.shutdown()


async def main():
    kind, count = frame.arguments()
    client = AsyncClient(frame.database_url())
    if kind == "prepare":
        await client.migrate()
        await client.install_queue_storage(schema="awa")
    elif kind == "work":
        await work(client)
    elif kind == "preload":
        for chunk in frame.chunks(count):
            await client.enqueue_many_copy([Noop(**each) for each in chunk], queue="bench")
    else:
        await frame.produce(kind, count, lambda given: client.insert(Noop(**given), queue="bench"))


if __name__ == "__main__":
    asyncio.run(main())
