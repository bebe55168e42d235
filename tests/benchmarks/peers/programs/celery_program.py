import sys

from celery import Celery

from benchmarks.peers.programs import frame
from benchmarks.tally import tally

app = Celery("bench", broker=frame.amqp_url())
app.conf.task_default_queue = "bench"
app.conf.broker_connection_retry_on_startup = True
app.conf.broker_transport_options = {"confirm_publish": True}
if frame.tuned():
    app.conf.task_ignore_result = True
    app.conf.worker_prefetch_multiplier = 128
    app.conf.worker_send_task_events = False
    app.conf.worker_cancel_long_running_tasks_on_connection_loss = False


@app.task(name="noop")
def noop(number, sent, padding):
    tally().record(number, sent)


def main():
    kind, count = frame.arguments()
    if kind == "work":
        options = ["worker", "--loglevel=WARNING", "--pool=prefork", "--concurrency=2"]
        if frame.tuned():
            options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        app.worker_main(options)
    elif kind == "preload":
        app.conf.broker_transport_options = {}
        with app.producer_pool.acquire(block=True) as producer:
            for chunk in frame.chunks(count):
                for each in chunk:
                    noop.apply_async(kwargs=each, producer=producer)
    elif kind in ("enqueue", "idle"):
        frame.produce_blocking(kind, count, lambda given: noop.apply_async(kwargs=given))


if __name__ == "__main__":
    sys.modules["benchmarks.peers.programs.celery_program"] = sys.modules["__main__"]
    main()
