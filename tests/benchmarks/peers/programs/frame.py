"""What the programs of all peers share; the standard library and the tally, nothing else.

``python -m benchmarks.peers.programs.NAME prepare|preload|work|enqueue|idle [N]``. The producers
say "ready", wait for a line, and tell what they did as JSON.
"""

import asyncio
import json
import os
import random
import sys
import time

PADDING = "x" * 64
CHUNK = 1000


def tuned():
    return os.environ["PEER_TUNED"] == "1"


def database_url():
    return os.environ["PEER_DATABASE_URL"]


def amqp_url():
    return os.environ["PEER_AMQP_URL"]


def payload(number, sent=None):
    return {"number": number, "sent": sent, "padding": PADDING}


def chunks(count):
    for first in range(0, count, CHUNK):
        yield [payload(number) for number in range(first, min(count, first + CHUNK))]


def wait_for_go():
    print("ready", flush=True)
    sys.stdin.readline()


def tell(count, seconds, cpu):
    print(json.dumps({"tasks": count, "seconds": seconds, "cpu": cpu}), flush=True)


async def produce(kind, count, enqueue):
    """Enqueue one after the other, or one now and then."""
    wait_for_go()
    cpu, begun = time.process_time(), time.monotonic()
    for number in range(count):
        sent = None
        if kind == "idle":
            await asyncio.sleep(random.uniform(0.05, 0.15))
            sent = time.monotonic()
        await enqueue(payload(number, sent))
    tell(count, time.monotonic() - begun, time.process_time() - cpu)


def produce_blocking(kind, count, enqueue):
    async def step(given):
        enqueue(given)

    asyncio.run(produce(kind, count, step))


def arguments():
    return sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
