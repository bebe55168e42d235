"""The processes of one run: started, watched, heard and stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

_HERE: Final = Path(__file__).resolve().parents[1]
_COMPOSE: Final = _HERE.parent / "compose"
_STOP_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.01


class RunFailed(RuntimeError):
    """A process ended or never came to where it should; the text has the end of its log."""


class Crew:
    """Processes with a log each; leaving the block stops every one of them."""

    def __init__(
        self, directory: Path, environment: Mapping[str, str], packages: Path | None = None
    ) -> None:
        """``packages``: a directory of packages that these processes have and others do not."""
        paths = (_HERE, _COMPOSE, packages)
        self.directory = directory
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(each) for each in paths if each is not None),
            "BENCH_RUN": str(directory),
            **environment,
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, name: str, *command: str, **environment: str) -> None:
        """Start ``python -m command`` under this name."""
        self.launch(name, [sys.executable, "-m", *command], **environment)

    def launch(self, name: str, command: Sequence[str], **environment: str) -> None:
        """Start a command whose standard input we hold."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                env={**self._environment, **environment},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches us, and we stop them
            )

    def tell(self, name: str, line: str) -> None:
        """Write a line to a process's standard input."""
        stdin = self._running[name].stdin
        if stdin is None:
            raise RunFailed(f"{name} does not listen")
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    def log(self, name: str) -> Path:
        """Where this process writes."""
        return self.directory / f"{name}.log"

    def pid(self, name: str) -> int:
        """Its process id."""
        return self._running[name].pid

    def says(self, name: str, word: str, patience: float = 90.0) -> None:
        """Return when this process has written these characters."""
        self.wait(
            f"{name} says {word}", lambda: word.encode() in self.log(name).read_bytes(), patience
        )

    def wait(self, what: str, look: Callable[[], object], patience: float) -> None:
        """Return when ``look`` answers; raises ``RunFailed`` when time is up or one has ended."""
        deadline = time.monotonic() + patience
        while not look():
            if time.monotonic() > deadline:
                raise RunFailed(f"after {patience:.0f} s still not: {what}\n{self._last_words()}")
            self.check(what)
            time.sleep(_LOOK_SECONDS)

    def check(self, what: str) -> None:
        """Raise ``RunFailed`` if a process has ended badly."""
        gone = [name for name, each in self._running.items() if (each.poll() or 0) != 0]
        if gone:
            raise RunFailed(f"{gone[0]} ended while waiting: {what}\n{self._last_words()}")

    def ended(self, name: str, patience: float) -> None:
        """Return when this process has ended well."""
        self.wait(f"{name} ends", lambda: self._running[name].poll() == 0, patience)

    def stop(self, *names: str) -> None:
        """SIGTERM for these, or all; SIGKILL for those that do not listen."""
        chosen = [self._running.pop(name) for name in names or tuple(self._running)]
        for process in chosen:
            if process.stdin is not None:
                process.stdin.close()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in chosen:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def kill(self) -> None:
        """SIGKILL for all, and for what they started: nobody will miss their last words."""
        for process in self._running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self._running.values():
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self._running.clear()

    def _last_words(self) -> str:
        tails = (
            f"--- {name}\n{self.log(name).read_text(encoding='utf-8', errors='replace')[-1500:]}"
            for name in self._running
        )
        return "\n".join(tails)
