"""Identities: of tasks (UUIDv7, minted by the producer) and of workers (never reused)."""

import os
import secrets
import socket
import time
from typing import NewType
from uuid import UUID

TaskId = NewType("TaskId", UUID)
WorkerId = NewType("WorkerId", str)

_VERSION_7 = 0x7 << 76
_VARIANT_RFC = 0b10 << 62
_NANOSECONDS_PER_MILLISECOND = 1_000_000


def new_task_id() -> TaskId:
    """Mint a UUIDv7 (RFC 9562, method 3): ids of one producer sort by the time they were minted.

    The 12 bits behind the milliseconds carry their fraction, the last 62 bits are random.
    """
    milliseconds, rest = divmod(time.time_ns(), _NANOSECONDS_PER_MILLISECOND)
    fraction = rest * 4096 // _NANOSECONDS_PER_MILLISECOND
    head = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | _VERSION_7 | fraction << 64
    return TaskId(UUID(int=head | _VARIANT_RFC | int.from_bytes(os.urandom(8)) >> 2))


def new_worker_id(role: str) -> WorkerId:
    """Name a process so that a container which returns under the same host name and pid is another.

    Reads ``role@host/pid/boot id``; the boot id is 48 random bits.
    """
    return WorkerId(f"{role}@{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(6)}")
