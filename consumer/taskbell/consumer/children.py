"""The processes in which isolated handlers run, seen from their worker.

Spawned, not forked: threads and connections of the worker stay where they are. Each runs one
attempt at a time and is used again; to interrupt an attempt is to kill its process, with whatever
that has started.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection

from taskbell.consumer.diagnosis import failed
from taskbell.consumer.errors import ProcessDied
from taskbell.consumer.leases import Lease
from taskbell.consumer.lent import Lend, lent
from taskbell.consumer.order import Progress, Said, Welcome, order_for
from taskbell.consumer.registry import Registration
from taskbell.consumer.stage import Stage
from taskbell.shared.database import Database
from taskbell.shared.ids import WorkerId
from taskbell.shared.lifecycle import Outcome


class Child:
    """One process."""

    def __init__(self, welcome: Welcome) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            # Of a session of its own: what a terminal sends to the worker is not for its children.
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "taskbell.consumer.child", str(number)],
                pass_fds=[number],
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._connection: Connection = Connection(ours.detach())
        self._connection.send(welcome)

    def run(self, registration: Registration, lease: Lease) -> Outcome:
        """Run one attempt; raises ``EOFError`` or ``OSError`` when the process died."""
        self._connection.send(order_for(registration, lease))
        while True:
            said = self._connection.recv()
            if isinstance(said, Said):
                if (said.task_id, said.attempt) == (lease.task_id, lease.attempt):
                    lease.told.progress = said.progress
                continue
            if isinstance(said, Lend):
                self._connection.send(lent(lease, said))
                continue
            if not isinstance(said, Progress):
                outcome: Outcome = said
                return outcome
            if lease.told.hold is not None:
                lease.told.hold().advance(said.stage, said.result)
            self._connection.send(None)

    def kill(self) -> None:
        """End it now."""
        with self._lock:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def bury(self) -> str:
        """Wait until it has ended; answers how."""
        self.kill()
        code = self._process.wait()
        self._connection.close()
        if code < 0:
            return f"the process died with {signal.Signals(-code).name}"
        return f"the process ended with exit code {code}"


class Children:
    """The processes of one worker; for calls from any thread."""

    def __init__(self, database: Database, worker_id: WorkerId, result_bytes: int) -> None:
        self._welcome = Welcome(list(sys.path), database, worker_id, result_bytes)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._busy: dict[Lease, Child] = {}

    def run(self, registration: Registration, lease: Lease) -> Outcome:
        """Run one attempt in a process and wait for its end, whatever that is."""
        try:
            child = self._take(lease)
        except OSError as error:
            return failed(error)
        told = lease.told
        if told.lost or told.cancelled or told.timed_out:  # interrupted before there was a process
            child.kill()
        try:
            outcome = child.run(registration, lease)
        except (EOFError, OSError):
            return self._died(child, lease)
        with self._lock:
            del self._busy[lease]
            self._idle.append(child)
        return outcome

    def kill(self, lease: Lease) -> None:
        """End the process that runs this attempt, if there is one."""
        with self._lock:
            child = self._busy.get(lease)
        if child is not None:
            child.kill()

    def close(self) -> None:
        """End them all."""
        with self._lock:
            idle, self._idle = self._idle, []
            busy = list(self._busy.values())
        for child in (*idle, *busy):
            child.kill()
        for child in idle:
            child.bury()

    def _take(self, lease: Lease) -> Child:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        child = child or Child(self._welcome)
        with self._lock:
            self._busy[lease] = child
        return child

    def _died(self, child: Child, lease: Lease) -> Outcome:
        how = child.bury()
        with self._lock:
            del self._busy[lease]
        told = lease.told
        if told.stage is Stage.SETTLING:  # it may have committed
            told.stage = Stage.UNKNOWN
        elif told.stage in {Stage.OPEN, Stage.LOCKED}:  # the server rolls back
            told.stage = Stage.NONE
        return failed(ProcessDied(how))
