"""The composition root of ``taskbell api``: builds the parts and serves them until a signal."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

import uvicorn
from fastapi import FastAPI

from taskbell.producer.api.app import build
from taskbell.producer.api.buckets import Buckets
from taskbell.producer.api.cursor import Cursors
from taskbell.producer.api.keys import make_gatekeeper
from taskbell.producer.api.metrics import Metrics
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.protocol import protocol
from taskbell.producer.api.registrar import Registrar
from taskbell.producer.api.settings import ApiSettings
from taskbell.producer.api.watcher import Watcher
from taskbell.producer.gate import Gate
from taskbell.shared.cli.ending import told
from taskbell.shared.connections import Connections
from taskbell.shared.events import Event, Observer, RoleStarted, RoleStopped
from taskbell.shared.ids import new_worker_id
from taskbell.shared.logs import log_to_stderr
from taskbell.shared.loop import end_with, spare_the_collector

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 20
_REST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Listening(Event):
    """Requests are taken at this address."""

    url: str


class CannotServe(Exception):
    """The settings cannot be followed here: an address that is taken, a key that is none."""


def run(settings: ApiSettings) -> NoReturn:
    """Serve until SIGTERM or SIGINT and end the process: with 2 where it cannot serve."""
    observe = log_to_stderr(settings.log_level, settings.log_format)
    end_with(_code_of(serve(settings, observe)))


async def _code_of(serving: Awaitable[None]) -> int:
    try:
        await serving
    except CannotServe as error:
        return told(str(error), code=2)
    return 0


async def serve(settings: ApiSettings, observe: Observer) -> None:
    """Build everything and run it until a signal; raises ``CannotServe``.

    The database need not be there.
    """
    name = new_worker_id("api")
    try:
        parts = assemble(settings, observe)
        config = configuration(settings, build(parts))
        listener = bound(settings.api_host, settings.api_port)
    except (ValueError, OSError) as error:
        raise CannotServe(str(error)) from error

    def tell_started() -> None:
        observe(RoleStarted("api", name, ()))
        observe(Listening(_url_of(settings, listener)))

    server = Server(config, tell_started)
    _stop_on_signals(server, parts.watcher.stop)
    spare_the_collector()
    watching = asyncio.create_task(parts.watcher.run(), name="watcher")
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        await close(parts)
    observe(RoleStopped("api", name))


def _url_of(settings: ApiSettings, listener: socket.socket) -> str:
    host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
    scheme = "http" if settings.api_tls_cert is None else "https"
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


async def close(parts: Parts) -> None:
    """Let what is done behind everybody's back end, for a short time, then close connections."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_REST_SECONDS):
            await parts.gatekeeper.at_rest()
    await parts.connections.close()


def assemble(settings: ApiSettings, observe: Observer) -> Parts:
    """Make the parts; raises ``ValueError`` for settings that cannot be followed."""
    connections = Connections(settings.database, "api", settings.api_connections)
    metrics = Metrics()

    def observe_and_count(event: Event) -> None:
        metrics.observe(event)
        observe(event)

    seals, storage = settings.seals, settings.storage
    return Parts(
        settings=settings,
        connections=connections,
        gatekeeper=make_gatekeeper(settings, connections, observe_and_count),
        # Rates are taken from the buckets, which all replicas share.
        producer=Registrar(seals=seals, storage=storage, admission=Gate.QUEUE),
        buckets=Buckets(connections),
        watcher=Watcher(connections, observe_and_count),
        metrics=metrics,
        cursors=Cursors(connections),
        observe=observe_and_count,
        seals=seals,
        storage=storage,
    )  # fmt: skip


def configuration(settings: ApiSettings, app: FastAPI) -> uvicorn.Config:
    """Return how this is served; raises ``ValueError`` for certificates that are none."""
    config = uvicorn.Config(
        app,
        http=protocol(settings.api_head_bytes, settings.api_head_seconds),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(settings.api_grace)),
        ssl_certfile=settings.api_tls_cert,
        ssl_keyfile=settings.api_tls_key,
    )
    try:
        config.load()
    except OSError as error:  # of which ssl.SSLError is one
        told = error.strerror or type(error).__name__
        raise ValueError(f"TASKBELL_API_TLS_CERT, TASKBELL_API_TLS_KEY: {told}") from error
    return config


def bound(host: str, port: int) -> socket.socket:
    """Bind before anything is promised, so that an address that is taken is told in one line."""
    family, kind, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


class Server(uvicorn.Server):
    """uvicorn's server, with our signals and a word when it is up."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone: they were set up for the whole process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets=sockets)
        self._tell_started()


def _stop_on_signals(server: uvicorn.Server, end_streams: Callable[[], None]) -> None:
    """On the first signal end in good order, within the grace; on a second one at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True
        end_streams()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            # By the system and not by us: whatever hangs cannot get in its way.
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
