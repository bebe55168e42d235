"""The peers: versions, how they are tuned by their own documentation, what they do for a task."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Peer:
    """One system we are compared with."""

    name: str
    packages: tuple[str, ...]
    store: Literal["postgres", "rabbitmq"]
    workers: int
    """How many times its worker is started; those that fork themselves are started once."""
    backlog: int
    """Tasks that last for some seconds, but not for minutes."""
    note: str
    enqueue_note: str
    tuning: str
    left: str = ""
    """Counts what waits or runs in its tables."""

    @property
    def program(self) -> str:
        """The module that runs in its environment."""
        return f"benchmarks.peers.programs.{self.name}_program"


_CONFIRMED: Final = "one persistent message, confirmed; no database"
_RUN: Final = "one message consumed and acked after the run; nothing recorded, no result"

PEERS: Final = (
    Peer(
        "pgqueuer", ("pgqueuer[asyncpg]==1.6.0", "uvloop==0.23.0"), "postgres", 2, 30_000,
        "dequeued in batches, deleted and logged in batches; durable tables",
        "one row and its log, a commit, NOTIFY by trigger",
        "asyncpg, uvloop, batch_size 100 (default 10, asyncio)",
        "SELECT count(*) FROM pgqueuer",
    ),
    Peer(
        "dramatiq", ("dramatiq[rabbitmq]==2.2.1",), "rabbitmq", 1, 20_000, _RUN, _CONFIRMED,
        "2 processes, 1 thread each, prefetch 200 (default 8 threads, prefetch 16)",
    ),
    Peer(
        "celery", ("celery==5.7.0",), "rabbitmq", 1, 8_000,
        "one message consumed and acked before the run; no result", _CONFIRMED,
        "prefork 2, prefetch x128, no gossip, mingle, heartbeat (default prefetch x4)",
    ),
    Peer(
        "taskiq", ("taskiq-aio-pika==0.6.1",), "rabbitmq", 1, 10_000, _RUN, _CONFIRMED,
        "2 workers, qos 200 (default 10)",
    ),
    Peer(
        "procrastinate", ("procrastinate==3.10.0",), "postgres", 2, 3_000,
        "fetched, finished (deleted) one by one, a commit each; event rows by trigger",
        "one row and its event, a commit, NOTIFY by trigger",
        "2 workers, concurrency 50, delete_jobs always (default concurrency 1, jobs kept)",
        "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
    ),
    Peer(
        "awa", ("awa-pg==0.6.9",), "postgres", 2, 20_000,
        "claimed and completed in batches by its Rust core, kept as terminal rows",
        "one row, a commit", "2 processes, 500 workers each (default here 50)",
    ),
)  # fmt: skip

BY_NAME: Final = {peer.name: peer for peer in PEERS}
