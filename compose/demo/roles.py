"""The processes of the demo: a relay, two consumers, a producer; each with a log of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

PATIENCE = 10.0


class Roles:
    """Starts processes and, at the end, stops every one of them."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        here = Path(__file__).resolve().parent.parent
        self._environment = {**os.environ, **environment, "PYTHONPATH": str(here)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        """Run ``python -m command`` under this name."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the demo, and the demo stops them
            )

    def log(self, name: str) -> Path:
        """Where this process writes."""
        return self._directory / f"{name}.log"

    def kill(self, name: str) -> None:
        """End it as the kernel's out-of-memory killer would."""
        self._running[name].kill()
        self._running[name].wait()

    def ended(self, name: str) -> int | None:
        """Its exit code, if it has ended."""
        return self._running[name].poll()

    def failed(self) -> list[str]:
        """Names of those that ended by themselves, and badly."""
        return [name for name, each in self._running.items() if (each.poll() or 0) > 0]

    def all_say(self, word: bytes) -> bool:
        """Whether every process has written this to its log."""
        return all(word in self.log(name).read_bytes() for name in self._running)

    def last_words(self, name: str) -> str:
        """The end of its log."""
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def stop(self) -> None:
        """SIGTERM for all, SIGKILL for those that do not listen."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all."""
        self.stop()
