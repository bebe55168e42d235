"""The HTTP interface for tests: in this process with a gatekeeper of the test, or as processes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from services.guarded import LOOPBACK, Port
from support.fleet import Fleet
from taskbell.producer.api.app import build
from taskbell.producer.api.buckets import Buckets
from taskbell.producer.api.cursor import Cursors
from taskbell.producer.api.metrics import Metrics
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.registrar import Registrar
from taskbell.producer.api.route import Route
from taskbell.producer.api.server import Server, bound, configuration
from taskbell.producer.api.settings import ApiSettings
from taskbell.producer.api.watcher import Watcher
from taskbell.producer.gate import Gate
from taskbell.shared.connections import Connections
from taskbell.shared.events import Event

OWN = frozenset(Scope) - {Scope.ADMIN}
"""Every scope of an owner."""

ALICE = Principal("tbk_alice", "alice", OWN)
BOB = Principal("tbk_bob", "bob", OWN)
ADMIN = Principal("tbk_admin", "", frozenset({Scope.ADMIN}))

_SCHEME = "Test "


class Doorman:
    """A gatekeeper that believes what it is told in a header of the test."""

    def __init__(self) -> None:
        self._known: dict[str, Principal] = {}

    def header_of(self, principal: Principal) -> dict[str, str]:
        """Make a principal known, and return what it must send."""
        name = _SCHEME + str(len(self._known))
        self._known[name] = principal
        return {"Authorization": name}

    def forget(self, principal: Principal) -> None:
        """Admit this principal no more."""
        self._known = {name: known for name, known in self._known.items() if known != principal}

    async def admit(self, request: Request, scope: Scope) -> Principal:
        """Return the principal of the header, if it may."""
        principal = self._known.get(request.headers.get("authorization", ""))
        if principal is None:
            raise Problem("unauthenticated", headers={"WWW-Authenticate": "Bearer"})
        if not principal.may(scope):
            raise Problem("forbidden")
        return principal

    def degraded(self) -> list[str]:
        """Nothing is away."""
        return []

    async def at_rest(self) -> None:
        """Nothing is done behind anybody's back."""


@dataclass
class Api:
    """The interface in this process; ``client`` calls as ALICE."""

    parts: Parts
    app: FastAPI
    doorman: Doorman
    events: list[Event]
    """What it reported."""
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _clients: dict[Principal, httpx2.AsyncClient] = field(
        default_factory=dict[Principal, httpx2.AsyncClient]
    )

    def as_(self, principal: Principal) -> httpx2.AsyncClient:
        """Return a client that calls as this principal."""
        if principal not in self._clients:
            self._clients[principal] = httpx2.AsyncClient(
                transport=httpx2.ASGITransport(self.app),
                base_url="http://api",
                headers=self.doorman.header_of(principal),
            )
        return self._clients[principal]

    @property
    def client(self) -> httpx2.AsyncClient:
        """Calls as ALICE."""
        return self.as_(ALICE)

    async def close(self) -> None:
        """Close clients and connections."""
        for client in self._clients.values():
            await client.aclose()
        await self.parts.connections.close()


def open_api(database_url: str, more: Sequence[Route] = (), **settings: Any) -> Api:
    """Put the interface together; ``settings`` are those of ``ApiSettings``."""
    told = ApiSettings.read(database_url=database_url, **settings)
    connections = Connections(told.database, "api", told.api_connections)
    doorman = Doorman()
    events: list[Event] = []
    metrics = Metrics()

    def observe(event: Event) -> None:
        metrics.observe(event)
        events.append(event)

    seals, storage = told.seals, told.storage
    parts = Parts(
        settings=told,
        connections=connections,
        gatekeeper=doorman,
        producer=Registrar(seals=seals, storage=storage, admission=Gate.QUEUE),
        buckets=Buckets(connections),
        watcher=Watcher(connections, observe),
        metrics=metrics,
        cursors=Cursors(connections),
        observe=observe,
        seals=seals,
        storage=storage,
    )
    return Api(parts, build(parts, more), doorman, events)


MakeApi = Callable[..., Api]


@pytest.fixture
async def make_api(database_url: str) -> AsyncIterator[MakeApi]:
    """Makes interfaces on the test's database; settings by name: ``make_api(api_in_flight=1)``."""
    async with AsyncExitStack() as stack:

        def make(more: Sequence[Route] = (), **settings: Any) -> Api:
            api = open_api(database_url, more, **settings)
            stack.push_async_callback(api.close)
            watching = asyncio.ensure_future(api.parts.watcher.run())

            async def stop() -> None:
                api.parts.watcher.stop()
                watching.cancel()
                await asyncio.wait({watching})

            stack.push_async_callback(stop)
            return api

        yield make


@pytest.fixture
def api(make_api: MakeApi) -> Api:
    """The interface with the settings nobody changed."""
    return make_api()


@asynccontextmanager
async def served(api: Api) -> AsyncGenerator[int]:
    """Serve it on a port of this machine, as ``taskbell api`` does; gives the port."""
    started = asyncio.Event()
    listener = bound(LOOPBACK, 0)
    server = Server(configuration(api.parts.settings, api.app), started.set)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        await started.wait()
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


class ApiProcesses:
    """Processes of the interface in a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._ports: list[Port] = []

    def start(self, name: str = "api", **environment: str) -> str:
        """Start one and return its URL once it serves.

        Without credentials, unless ``environment`` (names without the prefix) says otherwise.
        """
        port = Port()
        self._ports.append(port)
        told = {"API_AUTH": "off", **environment, "API_PORT": str(port)}
        before = self._fleet.environment
        self._fleet.environment = before | {f"TASKBELL_{key}": told[key] for key in told}
        try:
            self._fleet.start(name, "taskbell.producer.api")
        finally:
            self._fleet.environment = before
        return f"http://{LOOPBACK}:{port}"

    def close(self) -> None:
        """Give the ports back; the fleet ends the processes."""
        for port in self._ports:
            port.release()


@pytest.fixture
def api_processes(fleet: Fleet) -> Iterator[ApiProcesses]:
    """Starts processes of the interface in the test's fleet."""
    processes = ApiProcesses(fleet)
    yield processes
    processes.close()


@pytest.fixture
def api_process(api_processes: ApiProcesses) -> str:
    """The URL of a process of the interface, without credentials."""
    return api_processes.start()
