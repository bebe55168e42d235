"""Who seals with what: the ring of keys, and what is known of owners' own keys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from taskbell.shared.connections import Runner
from taskbell.shared.database import Rows
from taskbell.shared.sealing.envelope import Kind


@dataclass(frozen=True, slots=True)
class TaskSeal:
    """Seals for one task, with the key of that task alone; pure, and may be sent to its process."""

    key_id: str
    task_id: UUID
    owner_id: str
    key: bytes = field(repr=False)

    def seal(self, kind: Kind, clear: bytes) -> bytes:
        """Return an envelope."""
        raise NotImplementedError

    def seal_text(self, kind: Kind, clear: str) -> str:
        """Return an envelope as text, for error columns."""
        raise NotImplementedError


class Seals:
    """The ring, and what is known of owners' keys. Thread-safe; knows no database.

    Owners and key ids are forgotten after 30 s, so an erased key is out of use everywhere by then.
    """

    @classmethod
    def of(cls, keys: str | None, file: Path | None) -> "Seals | None":
        """Read the ring; None: sealing is off. Raises ``ValueError``, which never tells a key."""
        raise NotImplementedError

    def unknown_owners(self, owner_ids: Iterable[str]) -> list[str]:
        """Return those to ask ``data_key.OF_OWNERS`` for; then call ``note_owners``."""
        raise NotImplementedError

    def note_owners(self, asked: Sequence[str], rows: Rows) -> None:
        """Remember the answer; owners without a row use the ring."""
        raise NotImplementedError

    def unknown_keys(self, sealed: Iterable[bytes | str | None]) -> list[str]:
        """Return the key ids to ask ``data_key.BY_IDS`` for; then call ``note_keys``."""
        raise NotImplementedError

    def note_keys(self, asked: Sequence[str], rows: Rows) -> None:
        """Remember the answer."""
        raise NotImplementedError

    async def learn(
        self,
        runner: Runner,
        owner_ids: Iterable[str] = (),
        sealed: Iterable[bytes | str | None] = (),
    ) -> None:
        """Ask both questions where there is somebody to ask; no statement if nothing is unknown."""
        raise NotImplementedError

    def for_task(self, task_id: UUID, owner_id: str) -> TaskSeal:
        """Return the seal of one task; ``LookupError`` if its owner was not noted."""
        raise NotImplementedError

    def open(self, kind: Kind, task_id: UUID, owner_id: str, sealed: bytes) -> bytes:
        """Return what was sealed; raises ``Unreadable``."""
        raise NotImplementedError

    def open_text(self, kind: Kind, task_id: UUID, owner_id: str, text: str | None) -> str | None:
        """Return a text that may be sealed; what cannot be opened says so in brackets."""
        raise NotImplementedError

    @property
    def active_key_id(self) -> str:
        """The key of the ring that seals now."""
        raise NotImplementedError

    def key_id_for(self, owner_id: str) -> str:
        """The key that seals for this owner now; ``LookupError`` if it was not noted."""
        raise NotImplementedError


def key_id_of(sealed: bytes | str) -> str | None:
    """Read which key sealed this; None if it is not sealed."""
    raise NotImplementedError
