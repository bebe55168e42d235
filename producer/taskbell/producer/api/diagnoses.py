"""Error texts as their owners may read them: opened where they were sealed."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from taskbell.producer.api.parts import Parts
from taskbell.shared.sealing import Kind, opened_text


class ErrorText(NamedTuple):
    """A text of one of the error columns, and what its seal binds."""

    task_id: UUID
    owner_id: str
    text: str | None
    kind: Kind = Kind.ERROR


async def opened(parts: Parts, texts: Sequence[ErrorText]) -> list[str | None]:
    """Return them in the clear; what cannot be opened says so in brackets.

    Raises ``DatabaseAway`` if a key would have to be asked for and cannot be.
    """
    if parts.seals is not None:
        await parts.seals.learn(parts.connections, sealed=[each.text for each in texts])
    return [
        opened_text(parts.seals, each.kind, each.task_id, each.owner_id, each.text)
        for each in texts
    ]
