"""The process of isolated handlers: ``python -m taskbell.consumer.child``, started by a worker.

It ends with its worker. What the worker must know of an effect is told before it goes on, so that
a heartbeat cannot take a lease that the effect itself settled for a lost one.
"""

import asyncio
import os
import queue
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from taskbell.consumer.context import Context, Told
from taskbell.consumer.effects import Effects
from taskbell.consumer.execution import execute, outcome_of
from taskbell.consumer.fence import Holder
from taskbell.consumer.lent import Lend, Lent, LentSeals
from taskbell.consumer.order import Order, Progress, Said, Welcome, found
from taskbell.consumer.registry import Registration, is_async
from taskbell.consumer.retries import Retries
from taskbell.consumer.stage import Stage
from taskbell.shared.lifecycle import Outcome


class Workshop:
    """What runs orders, one after the other."""

    def __init__(self, connection: Connection, welcome: Welcome) -> None:
        self._connection = connection
        self._worker_id = welcome.worker_id
        self._result_bytes = welcome.result_bytes
        self._effects = Effects(welcome.database, 1)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="taskbell-handler")
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._heard: queue.SimpleQueue[Lent | None] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._sending = threading.Lock()
        self._seals = LentSeals(self._ask)

    def work(self) -> None:
        """Run orders until the worker is gone."""
        threading.Thread(target=self._listen, name="taskbell-ear", daemon=True).start()
        with asyncio.Runner() as runner:
            while True:
                self._send(runner.run(self._outcome(self._orders.get())))

    def _send(self, said: Outcome | Progress | Said | Lend) -> None:
        with self._sending:  # progress may be said by any thread of the handler's
            self._connection.send(said)

    def _listen(self) -> None:
        while True:
            try:
                said = self._connection.recv()
            except (EOFError, OSError):  # nobody is left to settle what we do
                os._exit(1)
            if isinstance(said, Order):
                self._orders.put(said)
            else:
                self._heard.put(said)

    def _ask(self, question: Lend) -> Lent:
        with self._asking:  # a handler may ask from any thread
            self._send(question)
            return self._heard.get() or Lent()

    async def _outcome(self, order: Order) -> Outcome:
        registrations: list[Registration] = []

        async def find() -> None:
            registrations.append(_registration(order))

        not_found = await outcome_of(find)
        if not registrations:
            return not_found
        return await execute(
            registrations[0], self._context(order), order.payload, self._threads,
            self._result_bytes,
        )  # fmt: skip

    def _context(self, order: Order) -> Context:
        told = Told(effects=self._effects, seal=order.seal)
        told.seals = None if order.seal is None else self._seals

        def advance(stage: Stage, result: str | None) -> None:
            told.stage, told.result = stage, result
            with self._asking:
                self._send(Progress(stage, result))
                self._heard.get()

        context = Context(**order.context, _told=told)
        holder = Holder(
            context.task_id, context.attempt, self._worker_id,
            lambda: told.stage, advance, lambda: order.lease, order.seal,
        )  # fmt: skip
        told.hold = lambda: holder
        told.say = lambda progress: self._send(Said(context.task_id, context.attempt, progress))
        return context


def _registration(order: Order) -> Registration:
    handler = found(order.handler)
    return Registration(
        task_type=order.task_type,
        queue=order.context["queue"],
        handler=handler,
        model=found(order.model) if order.model else None,
        lease=order.lease,
        retry=Retries.of(None),
        timeout=None,
        isolated=False,
        runs_on_loop=is_async(handler),
    )


def _ignore(number: int, frame: object) -> None:
    """Leave signals to the worker, which decides how long its handlers may go on."""
    del number, frame


def main(number: int) -> None:
    """Serve the worker at the other end of this socket."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _ignore)  # not SIG_IGN, which the handler's own processes would inherit
    connection: Connection = Connection(number)
    welcome: Welcome = connection.recv()
    sys.path[:] = welcome.path
    Workshop(connection, welcome).work()


if __name__ == "__main__":
    main(int(sys.argv[1]))
