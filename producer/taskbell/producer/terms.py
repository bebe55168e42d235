"""What one producer holds for all the tasks it enqueues."""

from dataclasses import dataclass

from taskbell.producer.birth import RINGING, SILENT, Births
from taskbell.producer.rules import require_owner
from taskbell.shared.limits import PAYLOAD_BYTES


@dataclass(frozen=True, slots=True)
class Terms:
    """The owner of tasks that name none, whether to ring, and the largest payload in bytes.

    The limit may be lowered, not raised: every other door keeps ``PAYLOAD_BYTES``, too. Raises
    ``ValueError``, of which ``InvalidTask`` is one.
    """

    owner_id: str
    ring: bool
    payload_limit: int

    def __post_init__(self) -> None:
        require_owner("owner_id", self.owner_id)
        if not 1 <= self.payload_limit <= PAYLOAD_BYTES:
            raise ValueError(f"payload_limit: must lie within 1 to {PAYLOAD_BYTES} bytes")

    @property
    def births(self) -> Births:
        """The statements these terms call for."""
        return RINGING if self.ring else SILENT
