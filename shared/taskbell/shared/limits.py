"""The limits a task must keep, each in one place for every door that checks it."""

import re

PAYLOAD_BYTES = 1024 * 1024
"""Largest payload, as UTF-8 JSON."""

PAYLOAD_DEPTH = 100
"""Deepest nesting of arrays and objects."""

TYPE_BYTES = 200
QUEUE_BYTES = 200
"""Leaves room for ``taskbell.q.`` within the 255 bytes of an AMQP name."""

QUEUE_CHARACTERS = re.compile(r"[a-zA-Z0-9_.:@#/+-]+(?: +[a-zA-Z0-9_.:@#/+-]+)*")
"""What AMQP 0-9-1 allows in a name, without the commas and outer blanks of a list of names."""

DEFAULT_QUEUE = "default"
"""The queue of a task that names none."""

OWNER_BYTES = 200
CORRELATION_BYTES = 200
PARTITION_KEY_BYTES = 512
IDEMPOTENCY_KEY_BYTES = 1024
DEDUP_KEY_BYTES = 1024

PRIORITIES = range(10)
"""0 … 9; 9 is claimed first."""

LEVELS = tuple(sorted(PRIORITIES, reverse=True))
"""The priorities in the order in which they are claimed."""

DEFAULT_PRIORITY = 5
MAX_ATTEMPTS = range(1, 1001)
DEFAULT_MAX_ATTEMPTS = 5

INTEGER_BITS = 64
"""Integers beyond a signed 64-bit word are refused: JSON readers in other languages round them."""

DELAY_SECONDS = 10 * 366 * 24 * 3600
"""Furthest due time from now: ten years."""

ANNOUNCEMENT_IDS = 100
"""Most task ids in one announcement: their JSON stays below the 4 KiB up to which RabbitMQ keeps a
body in the queue's index."""

ERROR_BYTES = 4 * 1024
"""Longest error text kept with a task."""

TRACEBACK_BYTES = 16 * 1024
"""Longest traceback kept in a task's failure history."""

RESULT_BYTES = 1024 * 1024
"""Largest result, as UTF-8 JSON."""

PROGRESS_BYTES = 1024
"""Largest progress, as UTF-8 JSON."""

LEASE_SECONDS = (1.0, 24 * 3600.0)
"""The shortest and the longest lease."""

STORED_BYTES = 64 * 1024 * 1024
"""Largest payload or result that is kept as an object instead of in the row."""
