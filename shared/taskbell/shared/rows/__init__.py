"""Mapped classes as row declarations, so that a misspelt column is a type error.

They feed Core statements; no Session and no identity map is meant. The migrations are the truth
about the schema, and a test proves that both say the same.
"""

from taskbell.shared.rows.access import ApiKey, DataKey, RateLimit, Secret
from taskbell.shared.rows.around import AuditLog, Bell, Duty, Queue, Schedule, Worker
from taskbell.shared.rows.declaration import Row
from taskbell.shared.rows.hot import HeldPartition, Lease, Outbox
from taskbell.shared.rows.record import DeadLetter, Effect, Failure, Idempotency, Task

__all__ = [
    "ApiKey",
    "AuditLog",
    "Bell",
    "DataKey",
    "DeadLetter",
    "Duty",
    "Effect",
    "Failure",
    "HeldPartition",
    "Idempotency",
    "Lease",
    "Outbox",
    "Queue",
    "RateLimit",
    "Row",
    "Schedule",
    "Secret",
    "Task",
    "Worker",
]
