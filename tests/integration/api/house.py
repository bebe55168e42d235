"""Two owners and an administrator with real keys before the interface, and one owner's tasks."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import httpx2
import psycopg
from fastapi import FastAPI

from integration.api.rules import Way
from support.api import Api
from support.hands import hands
from support.recorded import Recorded
from support.workers import rows
from taskbell.producer import NewTask, Producer
from taskbell.producer.api.app import build
from taskbell.producer.api.gatekeeper import BearerGatekeeper
from taskbell.producer.api.keys import make_gatekeeper
from taskbell.shared import access
from taskbell.shared.access import Grant, NewKey
from taskbell.shared.database import conninfo
from taskbell.shared.events import ignore

OWNER_SCOPES = ("submit", "read", "cancel", "operate")
_STATE = """
SELECT jsonb_build_object(
    'tasks', (SELECT jsonb_agg(t ORDER BY t.id) FROM taskbell.task t WHERE t.owner_id = 'alice'),
    'waiting', (SELECT jsonb_agg(o ORDER BY o.task_id) FROM taskbell.outbox o),
    'running', (SELECT jsonb_agg(l ORDER BY l.task_id) FROM taskbell.lease l),
    'letters', (SELECT jsonb_agg(d ORDER BY d.task_id) FROM taskbell.dead_letter d),
    'deeds', (SELECT jsonb_agg(a ORDER BY a.id) FROM taskbell.audit_log a
              WHERE a.action NOT LIKE 'key %%')) AS state
"""


@dataclass
class House:
    """The interface with its real gatekeeper; ``recorded`` is what its routes ask.

    ``victims`` are alice's tasks: one that ended well, one that failed, one that runs, one that
    waits.
    """

    url: str
    app: FastAPI
    recorded: Recorded
    gatekeeper: BearerGatekeeper
    bob: NewKey
    admin: NewKey
    victims: list[UUID]

    async def grant(self, *scopes: str, owner: str = "bob") -> NewKey:
        """A new key."""
        return await access.create(self.recorded, Grant(owner, scopes), actor="test")

    async def call(
        self, way: Way, task_id: UUID, key: NewKey | str | None, **query: str
    ) -> httpx2.Response:
        """Go this way, about this task, with a key or with whatever text stands for one."""
        body = way.rule.body
        headers = {} if key is None else {"Authorization": f"Bearer {_text(key)}"}
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app), base_url="http://api", headers=headers
        ) as client:
            return await client.request(
                way.method,
                way.url(task_id),
                params=way.rule.query | query,
                json=None if body is None else body(task_id),
            )

    async def close(self) -> None:
        """Close what is ours, once nobody uses what is not."""
        await self.gatekeeper.at_rest()
        await self.recorded.close()

    def state(self) -> Any:
        """All that is alice's, and all that happens to anybody's tasks."""
        (row,) = rows(self.url, _STATE)
        return row.state


def _text(key: NewKey | str) -> str:
    return key if isinstance(key, str) else key.text


def said(response: httpx2.Response) -> tuple[int, dict[str, str], str]:
    """All of an answer but when it was given and which request it is for."""
    request_id = response.headers["x-request-id"]
    headers = {
        name: value for name, value in response.headers.items()
        if name not in {"date", "x-request-id"}
    }  # fmt: skip
    return response.status_code, headers, response.text.replace(request_id, "…")


async def open_house(url: str, api: Api) -> House:
    """Put it together."""
    parts = api.parts
    recorded = Recorded.of(parts.connections)
    gatekeeper = make_gatekeeper(parts.settings, parts.connections, ignore)
    assert isinstance(gatekeeper, BearerGatekeeper)
    app = build(replace(parts, connections=recorded, gatekeeper=gatekeeper))
    bob = await access.create(recorded, Grant("bob", OWNER_SCOPES), actor="test")
    admin = await access.create(recorded, Grant("", ("admin",)), actor="test")
    return House(url, app, recorded, gatekeeper, bob, admin, await _victims(url))


async def _victims(url: str) -> list[UUID]:
    with psycopg.connect(conninfo(url)) as connection:
        done, failed, running, waiting = (
            each.task_id for each in Producer(owner_id="alice").enqueue_many(connection, _asked(4))
        )
    async with hands(url) as worker:
        await worker.complete(await worker.claim_ids([done]))
        await worker.fail(failed)
        await worker.claim_ids([running])
    rows(url, "UPDATE taskbell.task SET result = '{\"kept\": true}' WHERE id = %s", done)
    return [done, failed, running, waiting]


def _asked(count: int) -> Iterable[NewTask]:
    return [NewTask("noop", {}, idempotency_key="theirs" if n == 0 else None) for n in range(count)]
