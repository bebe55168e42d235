"""``make bench``: run the scenarios, write the report and the plots."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks import bench as sizes
from benchmarks import event_loop, report
from benchmarks.bench import Bench, Finding, Outcome, Size
from benchmarks.crew import RunFailed
from benchmarks.scenarios import NEED_SIZE, SCENARIOS
from benchmarks.servers import open_servers
from services import ServiceError

_ROOT: Final = Path(__file__).resolve().parents[2]
_SIZES: Final[dict[str, Size]] = {"full": sizes.FULL, "smoke": sizes.SMOKE, "long": sizes.LONG}


def main() -> int:
    """Run what was asked for; 1 if a scenario broke, whatever the figures."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _as_interrupt)
    directory = _ROOT / "build" / "benchmarks"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        broken, path = _measure(arguments, directory)
    except ServiceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything that was started is stopped\n")
        return 130
    _draw(directory)
    sys.stdout.write(path.read_text(encoding="utf-8"))
    sys.stderr.write(f"report and plots: {path.parent}\n")
    return 1 if broken else 0


def _measure(arguments: argparse.Namespace, directory: Path) -> tuple[bool, Path]:
    size = _SIZES[arguments.size]
    begun = time.monotonic()
    outcomes: dict[str, Outcome] = {}
    broken = False
    chosen = os.environ.get("TASKBELL_TEST_POSTGRES_BIN")
    with open_servers(Path(chosen) if chosen else None) as servers:
        bench = Bench(servers, size, directory, event_loop.installed())
        for name in arguments.only or _worthwhile(size):
            bench.say(name)
            try:
                outcomes[name] = SCENARIOS[name](bench)
            except RunFailed as error:
                # One that breaks must not cost the figures of the others.
                broken = True
                bench.say(f"  broke: {error}")
                first = str(error).splitlines()[0]
                outcomes[name] = Outcome([Finding(name, "runs", "broke", met=False, reason=first)])
                bench.servers.sweep()
        path = report.write(bench, arguments.size, outcomes, time.monotonic() - begun)
    return broken, path


def _worthwhile(size: Size) -> Iterable[str]:
    """All scenarios; small ones leave out those that say nothing without size."""
    return SCENARIOS if size.peers else [name for name in SCENARIOS if name not in NEED_SIZE]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks", description="What taskbell costs.")
    parser.add_argument("only", nargs="*", choices=[*SCENARIOS, []], help="default: all")
    parser.add_argument("--size", choices=sorted(_SIZES), default="full")
    return parser.parse_args()


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _draw(directory: Path) -> None:
    """Draw the plots where matplotlib is; without it the report is still there."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    alone = ("run", "--isolated", "--only-group", "bench", "--quiet")
    command = [uv, *alone, "--python", sys.executable, "python", "-m", "benchmarks.plots"]
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    drawn = subprocess.run([*command, str(directory)], check=False, cwd=_ROOT, env=environment)
    if drawn.returncode:
        sys.stderr.write("no plots: matplotlib could not be had\n")


if __name__ == "__main__":
    sys.exit(main())
