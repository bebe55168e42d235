"""What one producer holds for all the tasks it enqueues."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from taskbell.producer.birth import RINGING, SILENT, Births, births
from taskbell.producer.gate import Gate, Seen
from taskbell.producer.rules import require_owner
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import PAYLOAD_BYTES

if TYPE_CHECKING:  # their libraries are extras
    from taskbell.shared.sealing import Seals
    from taskbell.shared.storage import Storage


class OwnerKey(NamedTuple):
    """A row of ``data_key.OF_OWNERS``, whatever the caller's connection makes of rows."""

    owner_id: str
    key_id: str
    wrapped: bytes


@dataclass(frozen=True, slots=True)
class Terms:
    """The owner of tasks that name none, whether to ring, and the largest payload in bytes.

    The limit may be lowered, not raised: every other door keeps ``PAYLOAD_BYTES``, too. Raises
    ``ValueError``, of which ``InvalidTask`` is one.
    """

    owner_id: str
    ring: bool
    payload_limit: int
    own_only: bool = False
    """Whether a task that names another owner is refused."""
    seals: "Seals | None" = None
    storage: "Storage | None" = None
    gate: Gate = Gate.OPEN
    seen: Seen = field(default_factory=Seen, repr=False, compare=False)
    """What need not be asked for admission again for now."""

    def __post_init__(self) -> None:
        require_owner("owner_id", self.owner_id)
        if not 1 <= self.payload_limit <= PAYLOAD_BYTES:
            raise ValueError(f"payload_limit: must lie within 1 to {PAYLOAD_BYTES} bytes")

    def births_for(self, owner_ids: Iterable[str], queues: Iterable[str], *, kept: bool) -> Births:
        """Return the statements for tasks of these owners and queues.

        ``kept``: some of their payloads are sealed or stored.
        """
        gate = self.gate
        if gate is not Gate.OPEN:
            gate = self.seen.left(gate, owner_ids, queues)
        elif not kept:
            return RINGING if self.ring else SILENT
        return births(ring=self.ring, kept=kept, gate=gate)

    def owner_of(self, owner_id: str | None) -> str:
        """Return whose a task is that names this owner, or none; raises ``InvalidTask``."""
        if owner_id is None:
            return self.owner_id
        if self.own_only and owner_id != self.owner_id:
            raise InvalidTask("owner_id", "is not the owner for whom this producer works")
        return owner_id

    def unknown_owners(self, owner_ids: Iterable[str]) -> list[str]:
        """Return those whose keys must be asked for before anything can be sealed for them."""
        return [] if self.seals is None else self.seals.unknown_owners(owner_ids)

    def note_owners(self, asked: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Remember the answer."""
        if self.seals is not None:
            self.seals.note_owners(asked, [OwnerKey(*row) for row in rows])

    def sealed(self, task_id: UUID, owner_id: str, clear: bytes) -> bytes:
        """Seal a payload; ``LookupError`` if nothing seals for this owner."""
        from taskbell.shared.sealing import Kind  # noqa: PLC0415 - an extra, there if seals are

        if self.seals is None:
            raise LookupError("this producer seals nothing")
        return self.seals.for_task(task_id, owner_id).seal(Kind.PAYLOAD, clear)
