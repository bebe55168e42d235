"""One request as the statements take it, with the hashes that stand for it."""

import json
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from taskbell.producer.content import content_of
from taskbell.producer.new_task import NewTask
from taskbell.producer.rules import require_delay, require_soon_enough
from taskbell.producer.terms import Terms
from taskbell.shared.ids import new_task_id

_HASH_BYTES = 16


class Ask(NamedTuple):
    """The fields are the parameters of the statements of a birth, in their order.

    Of payload, payload_sealed and payload_location one is there; the last two come last, for most
    statements do without.
    """

    id: UUID
    owner_id: str
    type: str
    queue: str
    partition_key: str | None
    correlation_id: str | None
    scheduled_at: datetime | None
    delay: float | None
    max_attempts: int
    priority: int
    payload: str | None
    key_hash: bytes | None
    request_hash: bytes | None
    payload_sealed: bytes | None = None
    payload_location: str | None = None

    @property
    def weight(self) -> int:
        """About how many characters its payload takes in an array of many."""
        if self.payload is not None:
            return len(self.payload)
        return 2 * len(self.payload_sealed or b"") + len(self.payload_location or "")

    @property
    def rank(self) -> tuple[bytes, str]:
        """Where the statements put this key among others: by bytes."""
        return self.key_hash or b"", self.owner_id


def ask_for(request: NewTask, terms: Terms, now: datetime) -> Ask:
    """Bring a request and its producer's terms together; raises ``InvalidTask``.

    ``LookupError``: it must be sealed, and its owner's key is not known yet.
    """
    task_id = request.task_id or new_task_id()
    owner_id = terms.owner_of(request.owner_id)
    payload, sealed, location = content_of(request, task_id, owner_id, terms)
    if request.scheduled_at is not None:
        require_soon_enough("scheduled_at", request.scheduled_at, now)
    key = request.idempotency_key
    return Ask(
        id=task_id,
        owner_id=owner_id,
        type=request.type,
        queue=request.queue,
        partition_key=request.partition_key,
        correlation_id=request.correlation_id,
        scheduled_at=request.scheduled_at,
        delay=_seconds(request),
        max_attempts=request.max_attempts,
        priority=request.priority,
        payload=payload,
        key_hash=None if key is None else key_hash(key),
        request_hash=None if key is None else request_hash(request),
        payload_sealed=sealed,
        payload_location=location,
    )


def key_hash(idempotency_key: str) -> bytes:
    """Stand for a key where it is stored."""
    return _hash(idempotency_key.encode())


def request_hash(request: NewTask) -> bytes:
    """Stand for what the caller asked for: 16 bytes of SHA-256 of canonical JSON.

    Correlation id and trace are left out, since they change when a request is repeated; so are the
    owner and the key, which are what it is filed under. 1 and 1.0 differ, the order of keys does
    not. The hashes are stored: a change of form would make conflicts of honest repetitions.
    """
    asked = {
        "type": request.type,
        "queue": request.queue,
        "priority": request.priority,
        "max_attempts": request.max_attempts,
        "partition_key": request.partition_key,
        "delay": _seconds(request),
        "scheduled_at": request.scheduled_at and request.scheduled_at.isoformat(),
    }
    head = json.dumps(asked, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return _hash(f"{head}\n{request.encoded}".encode())


def _seconds(request: NewTask) -> float | None:
    # No delay and a delay of nothing are the same request.
    return None if request.delay is None else require_delay("delay", request.delay) or None


def _hash(text: bytes) -> bytes:
    return sha256(text).digest()[:_HASH_BYTES]
