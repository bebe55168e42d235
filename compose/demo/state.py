"""What the demo sees while it runs, read from Postgres and from the consumers' logs."""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles

from sqlalchemy import Engine, text

COUNTS = text("""
SELECT (SELECT count(*) FROM taskbell.outbox WHERE publish_at <= clock_timestamp()) AS depth,
       (SELECT count(*) FROM taskbell.lease) AS running,
       count(*) FILTER (WHERE status = 'COMPLETED') AS done,
       count(*) FILTER (WHERE status = 'RETRYING') AS retrying,
       count(*) FILTER (WHERE status = 'FAILED') AS dead
FROM taskbell.task
""")
SAMPLES = 500


@dataclass(frozen=True, slots=True)
class State:
    """One moment; latencies in milliseconds from announcement to start, None before the first."""

    depth: int
    running: int
    done: int
    retrying: int
    dead: int
    latency_p50: float | None
    latency_p95: float | None

    @property
    def ended(self) -> int:
        """Tasks in a final state."""
        return self.done + self.dead

    def as_dict(self) -> dict[str, int | float | None]:
        """The same as JSON values."""
        return asdict(self)


class Observatory:
    """Reads the state; follows the logs of the consumers it was told of."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read: dict[Path, int] = {}
        self._samples: deque[float] = deque(maxlen=SAMPLES)

    def follow(self, log: Path) -> None:
        """Take latencies from this consumer's log."""
        self._read[log] = 0

    def look(self) -> State:
        """Read everything once."""
        for log in self._read:
            self._samples.extend(self._latencies(log))
        with self._engine.connect() as connection:
            counts = connection.execute(COUNTS).one()
        middle, late = _percentiles(list(self._samples))
        return State(
            counts.depth, counts.running, counts.done, counts.retrying, counts.dead, middle, late
        )

    def _latencies(self, log: Path) -> Iterator[float]:
        with log.open("rb") as lines:
            lines.seek(self._read[log])
            for line in lines:
                if not line.endswith(b"\n"):  # still being written
                    break
                self._read[log] += len(line)
                if b'"task_settled"' in line:
                    seconds = json.loads(line)["announced_for"]
                    if seconds is not None:
                        yield seconds * 1000


def _percentiles(samples: list[float]) -> tuple[float | None, float | None]:
    if len(samples) < 2:  # noqa: PLR2004 - there are no quantiles of one
        return None, None
    cuts = quantiles(samples, n=20)
    return round(cuts[9], 1), round(cuts[18], 1)
