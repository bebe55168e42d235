import asyncio
import signal

from procrastinate import App, PsycopgConnector

from benchmarks.peers.programs import frame
from benchmarks.tally import tally

app = App(connector=PsycopgConnector(conninfo=frame.database_url()))


@app.task(name="noop", queue="bench")
async def noop(number, sent, padding):
    tally().record(number, sent)


async def main():
    kind, count = frame.arguments()
    async with app.open_async():
        if kind == "prepare":
            await app.schema_manager.apply_schema_async()
        elif kind == "work":
            options = {"concurrency": 50, "delete_jobs": "always"} if frame.tuned() else {}
            await app.run_worker_async(queues=["bench"], install_signal_handlers=True, **options)
        elif kind == "preload":
            for chunk in frame.chunks(count):
                await noop.batch_defer_async(*chunk)
        else:
            await frame.produce(kind, count, lambda given: noop.defer_async(**given))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    asyncio.run(main())
