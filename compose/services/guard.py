"""Runs one server for a parent process and outlives neither the parent's death nor its goodbye.

Started as a script of its own (standard library only) in a session of its own, so neither Ctrl-C at
the terminal nor a SIGKILL of the parent can leave a server behind: the parent's end of our standard
input closes, we stop the server and delete its directory. Should we be killed ourselves, the kernel
stops the server (`setpriv --pdeathsig` in its command), which works because one thread forks it.

Usage: guard.py PARENT STOP_SIGNAL DIRECTORY LOG COMMAND…   (our environment is the server's)
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

LOOK: Final = 0.5
"""Seconds between looks at who our parent is: a forked sibling may hold the pipe open for it."""

PATIENCE: Final = 15.0
"""Seconds a server may take to end after its stop signal, before it is killed."""


class Guard:
    """One server: its command, where it writes and the directory that goes with it."""

    def __init__(self, stop_signal: str, directory: str, log: str, argv: Sequence[str]) -> None:
        self._stop_signal = int(stop_signal)
        self._directory = directory
        self._log = Path(log)
        self._argv = argv
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            # The server gets its own session: what it forks can then be killed as one group.
            self._server = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self, sent: int) -> None:
        """The server has ended, by this signal if it obeys in time; its process group too."""
        if self._server is None:
            return
        if self._server.poll() is None:
            self._server.send_signal(sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(PATIENCE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()
        self._server = None

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Does it and answers with the state: the server's process id, and its exit status."""
        if command["do"] == "start":
            self.start()
        elif command["do"] == "end":
            self.end(command["signal"])
        if self._server is None:
            return {"pid": None, "exit": None}
        return {"pid": self._server.pid, "exit": self._server.poll()}

    def close(self) -> None:
        self.end(self._stop_signal)
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)


def serve(guard: Guard, parent: int) -> None:
    """Obeys the lines of standard input until it ends or our parent is another one."""
    pending = b""
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], LOOK)
        if not readable:
            continue
        received = os.read(0, 65536)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            answer = json.dumps(guard.obey(json.loads(line)))
            with contextlib.suppress(BrokenPipeError):
                os.write(1, answer.encode() + b"\n")


def main() -> None:
    def leave(_signal: int, _frame: object) -> None:
        raise SystemExit

    # The first SIGTERM cleans up; while we do, further ones must not cut it short.
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent, stop_signal, directory, log, *argv = sys.argv[1:]
    guard = Guard(stop_signal, directory, log, argv)
    try:
        serve(guard, int(parent))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        guard.close()


if __name__ == "__main__":
    main()
