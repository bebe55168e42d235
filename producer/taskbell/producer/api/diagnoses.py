"""Error texts as their owners may read them: opened where they were sealed."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from taskbell.producer.api.parts import Parts
from taskbell.shared.sealing import Kind
from taskbell.shared.sealing.envelope import key_id_of

_UNOPENED: Final = "(sealed)"


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
    sealed = [each.text for each in texts if each.text and key_id_of(each.text)]
    if not sealed:
        return [each.text for each in texts]
    if parts.seals is None:
        return [_UNOPENED if each.text in sealed else each.text for each in texts]
    await parts.seals.learn(parts.connections, sealed=sealed)
    return [
        parts.seals.open_text(each.kind, each.task_id, each.owner_id, each.text) for each in texts
    ]
