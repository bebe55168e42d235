"""One owner's tasks and nobody else's: what a service uses that acts for one of its users.

The writing half is a producer with ``own_only=True``.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Self
from uuid import UUID

from taskbell.producer.rules import require_owner
from taskbell.shared import dead_letters, listing, tasks
from taskbell.shared.connections import Connections
from taskbell.shared.database import Database
from taskbell.shared.kept import value_of
from taskbell.shared.listing import Page, Wanted
from taskbell.shared.sealing import Kind, Seals, opened_text
from taskbell.shared.whereabouts import Whereabouts

if TYPE_CHECKING:  # its library is an extra
    from taskbell.shared.storage import Storage

ALL = Wanted()
_CONNECTIONS = 4


class OwnerClient:
    """Finds, cancels and redrives one owner's tasks; another owner's do not exist for it.

    It brings its own connections, so it never takes part in a caller's transaction. Every verb may
    raise ``DatabaseAway``. Close it, or use it by ``async with``.
    """

    def __init__(
        self,
        database_url: str,
        owner_id: str,
        *,
        actor: str | None = None,
        behind_pooler: bool = False,
        connections: int = _CONNECTIONS,
        seals: "Seals | None" = None,
        storage: "Storage | None" = None,
    ) -> None:
        """Connect to nothing yet.

        ``actor``: who acts, for the audit log; the owner if not given. ``seals``, ``storage``: what
        opens results that are sealed or kept as objects. Raises ``ValueError``.
        """
        self.owner_id = require_owner("owner_id", owner_id)
        self._actor = actor or f"owner:{owner_id}"
        database = Database(database_url, behind_pooler=behind_pooler)
        self._connections = Connections(database, "owner", connections)
        self._seals = seals
        self._storage = storage

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def find(self, task_id: UUID) -> Whereabouts | None:
        """Return where the task is and what it waits for; None if this owner has no such task.

        An error that is sealed is opened if the client can, and otherwise says so, or why not.
        """
        found = await tasks.find(self._connections, task_id, owner_id=self.owner_id)
        if found is None or found.error_message is None:
            return found
        return replace(found, error_message=await self._opened_text(task_id, found.error_message))

    async def list_many(
        self, wanted: Wanted = ALL, *, before: UUID | None = None, limit: int = 50
    ) -> Page:
        """Return a page of this owner's tasks, the newest first; go on before its ``next``.

        ``limit``: 1 to 200.
        """
        return await listing.list_many(
            self._connections, wanted, owner_id=self.owner_id, before=before, limit=limit
        )

    async def result(self, task_id: UUID) -> object:
        """Return what the handler returned; None also where there is no result or no such task.

        Raises ``Unreadable`` if the result is sealed or stored and cannot be had, ``StorageAway``.
        """
        kept = await tasks.result_of(self._connections, task_id, owner_id=self.owner_id)
        if kept is None:
            return None
        return await value_of(
            kept, Kind.RESULT, task_id,
            runner=self._connections, seals=self._seals, storage=self._storage,
        )  # fmt: skip

    async def cancel(self, task_id: UUID) -> str:
        """Cancel the task if it waits, ask its holder if it runs.

        Returns ``cancelled``, ``requested``, ``too late: STATUS``, ``unknown`` or ``moved``, as
        ``taskbell tasks cancel`` does.
        """
        answers = await tasks.cancel_many(
            self._connections, [task_id], actor=self._actor, owner_id=self.owner_id
        )
        return answers[task_id]

    async def redrive(self, task_id: UUID) -> bool:
        """Make a FAILED task PENDING again; False if this owner has no such dead letter."""
        done = await dead_letters.redrive_many(
            self._connections, [task_id], actor=self._actor, owner_id=self.owner_id
        )
        return bool(done)

    async def _opened_text(self, task_id: UUID, text: str) -> str | None:
        if self._seals is not None:
            await self._seals.learn(self._connections, sealed=[text])
        return opened_text(self._seals, Kind.ERROR, task_id, self.owner_id, text)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()
