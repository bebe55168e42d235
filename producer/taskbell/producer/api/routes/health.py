"""Alive, ready, metrics: for those who watch over this process."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import psycopg
from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api.metrics import MOST_QUEUES, TEXT
from taskbell.producer.api.operators import Alive, Ready, answer
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.route import Operation, Route
from taskbell.shared.database import DedicatedConnection
from taskbell.shared.errors import DatabaseAway
from taskbell.shared.schema import compare
from taskbell.shared.statements import schema, states

_DEADLINE: Final = 2.0
# However many ask, without credentials at that: the database is asked once a second.
_GOOD_SECONDS: Final = 1.0
_STORAGE_AWAY: Final = "storage: it could not be reached the last time"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look at the database found."""

    missing: Sequence[str] = ()
    degraded: Sequence[str] = ()


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    health = _Health(parts)
    watched = None if parts.settings.api_metrics_open else Scope.OPERATE
    return [
        Route("GET", "/livez", None, health.alive, _ALIVE),
        Route("GET", "/readyz", None, health.ready, _READY),
        Route("GET", "/metrics", watched, health.metrics, _METRICS),
    ]


class _Health:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._looking = asyncio.Lock()
        self._findings = Findings()
        self._good_until = 0.0

    async def alive(self, request: Request, principal: Principal) -> Response:
        del request, principal
        return answer({"alive": True})

    async def ready(self, request: Request, principal: Principal) -> Response:
        del request, principal
        async with self._looking:
            if monotonic() >= self._good_until:
                self._findings = await self._look()
                self._good_until = monotonic() + _GOOD_SECONDS
        missing = list(self._findings.missing)
        degraded = [*self._findings.degraded, *self._known_to_be_away()]
        if not missing:
            return answer({"ready": True, "missing": [], "degraded": degraded})
        name, after = ("database-away", "2") if "database" in missing else ("not-migrated", "5")
        raise Problem(
            name, headers={"Retry-After": after}, ready=False, missing=missing, degraded=degraded
        )

    def _known_to_be_away(self) -> list[str]:
        """Tell from the last use: a visitor makes no request to a storage or an issuer."""
        away = self._parts.gatekeeper.degraded()
        if self._parts.storage is not None and self._parts.storage.is_away:
            away.append(_STORAGE_AWAY)
        return away

    async def _look(self) -> Findings:
        """Look, on a connection of its own: all others may be busy."""
        connection = DedicatedConnection(self._parts.settings.database, "ready")
        try:
            async with asyncio.timeout(_DEADLINE):
                return await _found(connection)
        except (DatabaseAway, TimeoutError):
            return Findings(missing=["database"])
        except psycopg.Error as error:  # no rights on the schema, say
            return Findings(missing=[f"schema: it cannot be read ({error.sqlstate})"])
        finally:
            await connection.close()

    async def metrics(self, request: Request, principal: Principal) -> Response:
        del request, principal
        measures: list[Any] | None
        try:
            measures = await self._parts.connections.run(states.MEASURES, most=MOST_QUEUES)
        except (DatabaseAway, psycopg.Error):
            measures = None
        text = self._parts.metrics.text(self._parts.traffic.in_flight, measures)
        return Response(text, headers={"Content-Type": TEXT})


async def _found(connection: DedicatedConnection) -> Findings:
    state = compare(None)
    if (await connection.run(schema.VERSION_TABLE))[0].found is not None:
        revision = await connection.run(schema.REVISION)
        state = compare(revision[0].revision if revision else None)
    if not state.ready:
        return Findings(missing=[f"schema: {state}"])
    (row,) = await connection.run(states.WRITABLE)
    refuses = row.standby or row.read_only
    return Findings(
        missing=[] if row.secret else ["cursor secret"],
        degraded=["writes: the database is read-only"] if refuses else [],
    )


_ALIVE: Final = Operation(
    summary="Whether this process runs", tag="Health", answers={200: ("It does.", Alive)}
)
_READY: Final = Operation(
    summary="Whether this process can serve, and what is missing if not",
    tag="Health",
    answers={200: ("It can.", Ready)},
    problems=["database-away", "not-migrated"],
)
_METRICS: Final = Operation(
    summary="Counts and measures in the Prometheus text format",
    tag="Health",
    answers={200: ("The page.", None)},
    media="text/plain",
)
