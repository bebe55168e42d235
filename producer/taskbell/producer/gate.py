"""Admission: what a birth asks before it gives birth."""

from enum import Enum


class Gate(Enum):
    """How much a producer asks."""

    OPEN = "nothing"
    QUEUE = "whether the queue has room"
    QUEUE_AND_RATE = "that, and whether the owner is within its rate"
