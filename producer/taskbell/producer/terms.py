"""What one producer holds for all the tasks it enqueues."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from taskbell.producer.birth import RINGING, SILENT, Births
from taskbell.producer.gate import Gate
from taskbell.producer.rules import require_owner
from taskbell.shared.limits import PAYLOAD_BYTES

if TYPE_CHECKING:  # their libraries are extras
    from taskbell.shared.sealing import Seals
    from taskbell.shared.storage import Storage


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

    def __post_init__(self) -> None:
        require_owner("owner_id", self.owner_id)
        if not 1 <= self.payload_limit <= PAYLOAD_BYTES:
            raise ValueError(f"payload_limit: must lie within 1 to {PAYLOAD_BYTES} bytes")

    @property
    def births(self) -> Births:
        """The statements these terms call for."""
        return RINGING if self.ring else SILENT
