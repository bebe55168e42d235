"""The parent's side of a guard, the ports and the private directories that local servers get.

Ports are *held*: a bound socket that never listens keeps them ours from the choice to the end, also
while the server is down, so that neither another run nor a client's own outgoing connection (which
may even connect to itself) takes them. The server binds beside it because both set SO_REUSEADDR.
"""

import grp
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_DISKS: Final = ("/tmp", "/var/tmp")  # noqa: S108 - mkdtemp is safe there
_MEMORY: Final = "/dev/shm"  # noqa: S108 - and there
_PLENTY: Final = 4 * 1024**3
_GUARD: Final = Path(__file__).with_name("guard.py")


class ServiceError(RuntimeError):
    """A service could not be found, started or spoken to; the text says why and what helps."""


class Port:
    """A TCP port of the loopback address that stays ours until `release()`."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind((LOOPBACK, 0))
        # After the bind: before it, we would share a port that another run holds just like this.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def __str__(self) -> str:
        return str(self.number)

    def release(self) -> None:
        self._socket.close()


class Guarded:
    """A server under guard: it ends with `close()`, with this process, and when told to."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        stop_signal: signal.Signals,
        directory: Path | None = None,
    ) -> None:
        """Nothing runs before `start()`; `directory` is deleted when the guard ends."""
        self._log = log
        self._seen = 0
        self._conversation = threading.Lock()
        self._guard = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(_GUARD)),
                *(str(os.getpid()), str(stop_signal.value), str(directory or ""), str(log)),
                *argv,
            ],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )

    def _ask(self, **command: object) -> dict[str, int | None]:
        stdin, stdout = self._guard.stdin, self._guard.stdout
        if stdin is None or stdout is None or stdin.closed:
            raise ServiceError("this server was closed")
        with self._conversation:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
            line = stdout.readline()
        if not line:
            raise ServiceError(f"the guard of a server has gone, exit status {self._guard.wait()}")
        answer: dict[str, int | None] = json.loads(line)
        return answer

    @property
    def pid(self) -> int | None:
        """Process id of the server, none while it is down."""
        state = self._ask(do="look")
        return state["pid"] if state["exit"] is None else None

    def start(self) -> None:
        self._seen = self._log.stat().st_size if self._log.exists() else 0
        self._ask(do="start")

    def end(self, sent: signal.Signals) -> None:
        """Returns when the server has ended, by this signal or, if it does not obey, killed."""
        self._ask(do="end", signal=sent.value)

    def wait_ready(self, what: str, ready: Callable[[], bool], patience: float) -> None:
        """Returns once `ready()` says so; an early end or no answer in time is an error."""
        wait_ready(what, ready, lambda: self.pid is not None, self._tail, patience)

    def _tail(self) -> str:
        written = self._log.read_bytes()[self._seen :] if self._log.exists() else b""
        return "\n".join(written.decode(errors="replace").splitlines()[-15:])

    def close(self) -> None:
        """The server has ended and its directory is gone. May be repeated."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait()
        if self._guard.stdout is not None:
            self._guard.stdout.close()


def wait_ready(
    what: str,
    ready: Callable[[], bool],
    running: Callable[[], bool],
    log: Callable[[], str],
    patience: float,
) -> None:
    """Returns once `ready()`; a server that ends before or takes too long (seconds) is an error."""
    deadline = time.monotonic() + patience
    while not ready():
        if not running():
            raise ServiceError(f"{what} ended while starting:\n{log()}")
        if time.monotonic() > deadline:
            raise ServiceError(f"{what} not ready after {patience:.0f} s:\n{log()}")
        time.sleep(0.03)


def make_directory(kind: str, owner: str | None = None, *, in_memory: bool = False) -> Path:
    """A private directory (mode 0700), owned by that OS user, who can reach it.

    `in_memory` if there is plenty of it and nobody asked for another place (TMPDIR).
    """
    parents = [tempfile.gettempdir(), *_DISKS]
    if in_memory and parents[0] in _DISKS and _roomy(_MEMORY):
        parents.insert(0, _MEMORY)
    for parent in parents:
        directory = Path(tempfile.mkdtemp(prefix=f"taskbell-{kind}-", dir=parent))
        if owner is not None:
            shutil.chown(directory, owner)
        if owner is None or _reaches(owner, directory):
            return directory
        directory.rmdir()
    raise ServiceError(f"no temporary directory that the OS user {owner} can reach: set TMPDIR")


def _roomy(path: str) -> bool:
    if not os.access(path, os.W_OK | os.X_OK):
        return False
    filesystem = os.statvfs(path)
    # Programs may have to be copied there, and in a container's default of 64 MB nothing fits.
    runs = not filesystem.f_flag & os.ST_NOEXEC
    return runs and filesystem.f_bavail * filesystem.f_frsize >= _PLENTY


def _reaches(owner: str, path: Path) -> bool:
    return subprocess.run([*as_user(owner), "test", "-x", path], check=False).returncode == 0


def as_user(owner: str | None, *options: str) -> list[str]:
    """The command prefix that runs a command as that user, or only with these setpriv options."""
    setpriv = shutil.which("setpriv")
    if owner is None:
        return [setpriv, *options] if setpriv and options else []
    if setpriv is None:
        raise ServiceError("setpriv (package util-linux) is needed to run a server as another user")
    account = pwd.getpwnam(owner)
    group = grp.getgrgid(account.pw_gid).gr_name
    return [setpriv, f"--reuid={owner}", f"--regid={group}", "--clear-groups", *options]


def bare_environment(home: Path) -> dict[str, str]:
    """What a server gets to see: our PATH and a home of its own, no other setting of ours."""
    return {"PATH": os.pathsep.join(os.get_exec_path()), "HOME": str(home), "LANG": "C"}
