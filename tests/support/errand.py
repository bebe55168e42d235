"""A producer in a process of its own: ``python -m support.errand TYPE DELAY`` enqueues one task."""

import os
import sys

import psycopg

from taskbell.producer import Producer
from taskbell.shared.database import conninfo


def main() -> None:
    """Commit a task that has nothing to do and is due so many seconds later."""
    task_type, delay = sys.argv[1:]
    with psycopg.connect(conninfo(os.environ["TASKBELL_DATABASE_URL"])) as connection:
        Producer().enqueue(connection, task_type, {"seconds": 0}, delay=float(delay))


if __name__ == "__main__":
    main()
