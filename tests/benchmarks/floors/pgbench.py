"""Runs pgbench, which has the same database, settings and counters as what it is compared with."""

import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy.engine import make_url

from benchmarks import counters
from benchmarks.bench import Bench
from benchmarks.crew import RunFailed
from benchmarks.floors import scripts
from benchmarks.handlers import LEDGER
from benchmarks.measured import Sample
from benchmarks.meter import Meter
from taskbell.shared.database import conninfo

BATCH: Final = 100
_DONE: Final = re.compile(r"number of transactions actually processed: (\d+)")
_RATE: Final = re.compile(r"tps = ([\d.]+)")
_FAILED: Final = re.compile(r"number of failed transactions: (\d+)")


@dataclass
class Floor:
    """A database for pgbench, and pgbench on it."""

    bench: Bench
    database_url: str
    directory: Path = field(init=False)

    def __post_init__(self) -> None:
        self.directory = self.bench.run_directory()
        with psycopg.connect(conninfo(self.database_url)) as connection:
            connection.execute(LEDGER.encode())
            connection.execute(scripts.SUPPORT.encode())

    def run(
        self,
        script: str,
        *,
        clients: int,
        tasks: int = BATCH,
        seconds: float | None = None,
        turns: int | None = None,
    ) -> Sample:
        """Run a script for so long, or so often for each client; ``tasks`` go in each turn."""
        path = self.directory / "script.sql"
        path.write_text(script, encoding="utf-8")
        span = ["-t", str(turns)] if turns else ["-T", str(max(1, round(seconds or 0)))]
        given = [f"-D{name}={value}" for name, value in scripts.variables(BATCH).items()]
        meter = Meter(self.database_url)
        meter.count()
        meter.begin()
        with subprocess.Popen(
            [
                *(
                    str(self.bench.servers.pgbench),
                    "-n",
                    "-M",
                    "prepared",
                    "-f",
                    str(path),
                    *span,
                    *given,
                ),
                *("-c", str(clients), "-j", "1"),
            ],
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running:
            said = running.communicate()[0]
        self._settle()
        meter.end()
        done, rate, failed = _DONE.search(said), _RATE.search(said), _FAILED.search(said)
        if running.returncode or not (done and rate) or (failed and int(failed[1])):
            raise RunFailed(f"pgbench: {said}")
        count = int(done[1])
        return meter.sample(count * tasks, count / float(rate[1]))

    def _settle(self) -> None:
        """Wait until its backends have ended, and their CPU is their parent's."""
        counters.wait_for_reports(self.database_url)
        time.sleep(0.1)

    def _environment(self) -> dict[str, str]:
        url = make_url(self.database_url)
        return {
            **os.environ,
            "PGHOST": url.host or "",
            "PGPORT": str(url.port),
            "PGUSER": url.username or "",
            "PGPASSWORD": str(url.password),
            "PGDATABASE": url.database or "",
            "PGOPTIONS": "-c jit=off",
        }
