import os
import sys

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from benchmarks.peers.programs import frame
from benchmarks.tally import tally

broker = RabbitmqBroker(url=frame.amqp_url(), confirm_delivery=True)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench")
def noop(number, sent, padding):
    tally().record(number, sent)


def main():
    kind, count = frame.arguments()
    if kind == "work":
        options = ["--processes", "2", "--threads", "1" if frame.tuned() else "8"]
        if frame.tuned():
            os.environ.update(dramatiq_queue_prefetch="200")
        module = "benchmarks.peers.programs.dramatiq_program"
        os.execv(sys.executable, [sys.executable, "-m", "dramatiq", *options, module])
    elif kind == "preload":
        broker.confirm_delivery = False
        for chunk in frame.chunks(count):
            for each in chunk:
                noop.send(**each)
        broker.close()
    elif kind in ("enqueue", "idle"):
        frame.produce_blocking(kind, count, lambda given: noop.send(**given))


if __name__ == "__main__":
    main()
