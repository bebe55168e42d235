"""The announcement on the wire: the ids of due tasks of one queue, as a JSON array of strings.

A hint, without payload or personal data. Readable in the management UI, which is why it is JSON.
"""

import json
from collections.abc import Sequence
from uuid import UUID

from taskbell.shared.ids import TaskId
from taskbell.shared.limits import ANNOUNCEMENT_IDS

ANNOUNCEMENT_TYPE = "taskbell.announcement.v1"
CONTENT_TYPE = "application/json"
_LONGEST_BODY = 8 * 1024


class NotAnAnnouncement(ValueError):
    """The body is not an announcement; whoever sent it, there is nothing to do."""


def encode(task_ids: Sequence[TaskId]) -> bytes:
    """Encode 1…100 ids."""
    if not 1 <= len(task_ids) <= ANNOUNCEMENT_IDS:
        raise NotAnAnnouncement(f"1 to {ANNOUNCEMENT_IDS} ids, not {len(task_ids)}")
    return json.dumps([str(task_id) for task_id in task_ids], separators=(",", ":")).encode()


def decode(body: bytes) -> tuple[TaskId, ...]:
    """Decode what ``encode`` made; anything else raises ``NotAnAnnouncement``."""
    if len(body) > _LONGEST_BODY:
        raise NotAnAnnouncement(f"{len(body)} bytes")
    try:
        ids: object = json.loads(body)
        if not isinstance(ids, list) or not 1 <= len(ids) <= ANNOUNCEMENT_IDS:  # pyright: ignore[reportUnknownArgumentType]
            raise NotAnAnnouncement("not an array of 1 to 100 ids")
        return tuple(TaskId(UUID(task_id)) for task_id in ids)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NotAnAnnouncement(str(error)) from error
