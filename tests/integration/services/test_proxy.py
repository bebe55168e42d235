"""The proxy fails the way networks fail, and says when it has."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from support.proxy import Direction, Proxy
from support.workers import rows
from taskbell.shared.database import conninfo


@pytest.fixture
async def echo() -> AsyncIterator[tuple[str, int]]:
    """A server that answers every chunk with itself."""
    answering: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running = asyncio.current_task()
        assert running is not None
        answering.add(running)
        try:
            while chunk := await reader.read(1024):
                writer.write(chunk)
        except ConnectionError:
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()
    server.close()
    await asyncio.gather(*answering)


@pytest.fixture
async def proxy(echo: tuple[str, int]) -> AsyncIterator[Proxy]:
    async with Proxy(*echo) as proxy:
        yield proxy


class Client:
    """One connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def echo(self, sent: bytes) -> bytes:
        self.writer.write(sent)
        return await self.reader.read(1024)


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    await proxy.wait_connections(1)
    yield Client(reader, writer)
    writer.transport.abort()


async def test_bytes_pass_both_ways(client: Client) -> None:
    assert await client.echo(b"hello") == b"hello"


async def test_a_cut_resets_what_is_open_and_admits_new_connections(
    proxy: Proxy, client: Client
) -> None:
    proxy.cut()

    with pytest.raises(ConnectionResetError):
        await client.echo(b"hello")
    await proxy.wait_connections(0)
    again = Client(*await asyncio.open_connection(proxy.host, proxy.port))
    assert await again.echo(b"again") == b"again"
    again.writer.close()


async def test_refusing_lets_open_connections_go_on(proxy: Proxy, client: Client) -> None:
    proxy.refuse()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(proxy.host, proxy.port)
    assert await client.echo(b"hello") == b"hello"


async def test_it_admits_again_at_the_same_port(proxy: Proxy) -> None:
    proxy.refuse()
    await proxy.admit()

    client = Client(*await asyncio.open_connection(proxy.host, proxy.port))

    assert await client.echo(b"hello") == b"hello"
    client.writer.close()


@pytest.mark.parametrize("direction", [*Direction, Direction.BOTH])
async def test_in_silence_bytes_wait_until_it_ends(
    proxy: Proxy, client: Client, direction: Direction
) -> None:
    proxy.silence(direction)

    client.writer.write(b"hello")
    await proxy.held_back.wait()
    proxy.resume()

    assert await client.reader.read(1024) == b"hello"


async def test_a_silent_proxy_still_accepts(proxy: Proxy) -> None:
    proxy.silence()

    _, writer = await asyncio.open_connection(proxy.host, proxy.port)
    await proxy.wait_connections(1)

    writer.close()


async def test_a_delay_is_spent_on_every_way(proxy: Proxy, client: Client) -> None:
    proxy.delay = 0.05
    clock = asyncio.get_running_loop()
    begun = clock.time()

    await client.echo(b"hello")

    assert clock.time() - begun >= 0.1


async def test_a_reply_is_lost_after_the_pattern_even_in_two_pieces(
    proxy: Proxy, client: Client
) -> None:
    assert await client.echo(b"COMMIT") == b"COMMIT", "not armed yet"
    proxy.lose_reply(b"COMMIT")
    assert await client.echo(b"... COM") == b"... COM"

    with pytest.raises(ConnectionResetError):
        await client.echo(b"MIT")

    assert proxy.reply_lost.is_set()


async def test_a_commit_whose_reply_is_lost_was_done(
    database_url: str,
) -> None:
    async with Proxy.before(database_url) as proxy:
        url = conninfo(proxy.through(database_url))
        connection = await psycopg.AsyncConnection.connect(url)
        await connection.execute("CREATE TABLE done ()")
        proxy.lose_reply(b"COMMIT")

        with pytest.raises(psycopg.OperationalError):
            await connection.commit()
        await proxy.reply_lost.wait()

    assert rows(database_url, "SELECT count(*) FROM done") == [(0,)]
