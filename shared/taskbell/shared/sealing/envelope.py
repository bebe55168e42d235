"""The envelope: what sealed content looks like, byte by byte."""

from enum import IntEnum


class Kind(IntEnum):
    """What was sealed; part of what the seal binds."""

    PAYLOAD = 1
    RESULT = 2
    ERROR = 3
    TRACEBACK = 4
