import asyncio
import os
import sys

from taskiq_aio_pika import AioPikaBroker

from benchmarks.peers.programs import frame
from benchmarks.tally import tally

broker = AioPikaBroker(frame.amqp_url(), qos=200 if frame.tuned() else 10)


@broker.task(task_name="noop")
async def noop(number, sent, padding):
    tally().record(number, sent)


async def produce(kind, count):
    await broker.startup()
    if kind == "preload":
        for chunk in frame.chunks(count):
            await asyncio.gather(*(noop.kiq(**each) for each in chunk))
    else:
        await frame.produce(kind, count, lambda given: noop.kiq(**given))
    await broker.shutdown()


def main():
    kind, count = frame.arguments()
    if kind == "work":
        module = "benchmarks.peers.programs.taskiq_program:broker"
        options = ["worker", module, "--workers", "2", "--log-level", "WARNING"]
        os.execv(sys.executable, [sys.executable, "-m", "taskiq", *options])
    elif kind in ("preload", "enqueue", "idle"):
        asyncio.run(produce(kind, count))


if __name__ == "__main__":
    main()
