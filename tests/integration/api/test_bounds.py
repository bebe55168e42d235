"""What a client may send: how large, how slowly, of what kind; over real sockets."""

import asyncio
import http.client
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from support.api import ALICE, Api, MakeApi, served
from taskbell.producer.api.lingering import Lingering
from taskbell.producer.api.principal import Principal
from taskbell.producer.api.route import Operation, Route

# Only a test that fails waits so long.
PATIENCE = 60.0


class Client:
    """Speaks HTTP by hand."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._key = key

    async def send(self, octets: bytes) -> None:
        self._writer.write(octets)
        await self._writer.drain()

    async def head(self, *lines: str, method: str = "POST /tasks") -> None:
        """Send the head of a request; ``lines``: headers besides the usual ones."""
        told = (
            f"{method} HTTP/1.1", "Host: api", f"Authorization: {self._key}",
            "Content-Type: application/json", *lines, "", "",
        )  # fmt: skip
        await self.send("\r\n".join(told).encode())

    async def wait_for_100(self) -> None:
        """Return when the server asks for the body."""
        async with asyncio.timeout(PATIENCE):
            await self._reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[int, bytes, bytes]:
        """Return status, head and body of an answer."""
        async with asyncio.timeout(PATIENCE):
            head = await self._reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            body = await self._reader.readexactly(size)
        return int(head.split(b" ", 2)[1]), head.lower(), body

    async def is_closed(self) -> bool:
        """Whether the server closes the connection, without saying more."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._reader.read(1) == b""
            except ConnectionResetError:
                return True


@asynccontextmanager
async def _connected(api: Api, port: int) -> AsyncGenerator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer, api.doorman.header_of(ALICE)["Authorization"])
    finally:
        writer.close()


async def _refused(client: Client, status: int, problem: str) -> bytes:
    """It is answered so and its connection is closed; returns the head of the answer."""
    answered, head, body = await client.answer()
    assert answered == status
    assert f"urn:taskbell:problem:{problem}".encode() in body
    assert await client.is_closed()
    return head


async def test_a_body_is_refused_by_its_length_before_it_is_read(api: Api) -> None:
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Content-Length: 300000000", "Expect: 100-continue")

        head = await _refused(client, 413, "payload-too-large")  # and no 100 before it
        assert b"connection: close" in head


async def test_a_client_that_goes_on_sending_reads_why_it_was_refused(api: Api) -> None:
    async with served(api) as port:
        body = b" " * 30_000_000
        status = await asyncio.to_thread(_posted, port, api.doorman.header_of(ALICE), body)

    assert status == 413


def _posted(port: int, headers: dict[str, str], body: bytes) -> int:
    """Post as a client does that sends everything before it reads anything."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        told = {**headers, "Content-Type": "application/json"}
        connection.request("POST", "/tasks", body=body, headers=told)
        return connection.getresponse().status
    finally:
        connection.close()


async def test_a_body_that_grows_too_long_is_cut_off(make_api: MakeApi) -> None:
    api = make_api(api_body_bytes=100_000)
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Transfer-Encoding: chunked")
        for _ in range(11):
            await client.send(b"2710\r\n" + b" " * 10_000 + b"\r\n")

        status, head, _ = await client.answer()

        assert status == 413
        assert b"connection: close" in head
        assert await client.is_closed()


async def test_a_body_that_does_not_arrive_is_not_waited_for(make_api: MakeApi) -> None:
    api = make_api(api_body_seconds=0.5)
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Content-Length: 100")
        await client.send(b"{")

        assert b"connection: close" in await _refused(client, 408, "request-timeout")


async def test_a_head_that_does_not_arrive_is_not_waited_for(make_api: MakeApi) -> None:
    api = make_api(api_head_seconds=0.5)
    async with served(api) as port:
        async with _connected(api, port) as silent:
            assert (await silent.answer())[0] == 408
            assert await silent.is_closed()
        async with _connected(api, port) as slow:
            await slow.send(b"POST /tasks HTTP/1.1\r\nHost: ap")
            assert (await slow.answer())[0] == 408
            assert await slow.is_closed()


async def test_a_second_head_is_not_waited_for_either(make_api: MakeApi) -> None:
    api = make_api(api_head_seconds=2.0)
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Content-Length: 15")
        await client.send(b'{"type":"noop"}')
        assert (await client.answer())[0] == 201
        await client.send(b"GET /tas")

        assert (await client.answer())[0] == 408
        assert await client.is_closed()


@pytest.mark.parametrize("size", [40_000, 200_000, 2_000_000])
async def test_a_head_that_is_too_large_is_refused(api: Api, size: int) -> None:
    async with served(api) as port, _connected(api, port) as client:
        try:
            await client.head(f"X-Long: {'x' * size}", "Content-Length: 0")
        except ConnectionError:  # refused while it still sent
            return

        await _refused(client, 431, "header-too-large")


async def test_a_head_in_many_pieces_is_counted_together(api: Api) -> None:
    async with served(api) as port, _connected(api, port) as client:
        await client.send(b"GET /tasks HTTP/1.1\r\n")
        try:
            for n in range(40):
                await client.send(f"X-{n}: {'x' * 1000}\r\n".encode())
        except ConnectionError:
            return

        assert (await client.answer())[0] == 431


CHUNKED = b'f\r\n{"type":"noop"}\r\n'


@pytest.mark.parametrize(
    "endless",
    [b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(600)), b"X: " + b"x" * 600_000],
    ids=["many", "one"],
)
async def test_trailers_that_do_not_end_are_refused(api: Api, endless: bytes) -> None:
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Transfer-Encoding: chunked")
        try:
            await client.send(CHUNKED + b"0\r\n" + endless)
        except ConnectionError:  # refused while it still sent
            return

        await _refused(client, 431, "header-too-large")


async def test_an_extension_of_a_chunk_that_does_not_end_is_refused(api: Api) -> None:
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Transfer-Encoding: chunked")
        try:
            await client.send(b"f;x=" + b"x" * 600_000)
        except ConnectionError:
            return

        assert (await client.answer())[0] == 431


async def test_a_trailer_is_no_header(api: Api) -> None:
    trailer = b"0\r\nIdempotency-Key: late\r\nContent-Type: text/plain\r\n\r\n"
    key = api.doorman.header_of(ALICE)["Authorization"]
    head = (
        f"POST /tasks HTTP/1.1\r\nHost: api\r\nAuthorization: {key}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with served(api) as port, _connected(api, port) as client:
        statuses: list[int] = []
        for _ in range(2):
            await client.send(head.encode() + CHUNKED + trailer)
            statuses.append((await client.answer())[0])

    assert statuses == [201, 201]  # with the key the second would be known


async def test_requests_that_follow_at_once_are_answered_in_order(api: Api) -> None:
    body = b'{"type":"noop","payload":"' + b"x" * 50_000 + b'"}'
    async with served(api) as port, _connected(api, port) as client:
        for _ in range(5):
            await client.head(f"Content-Length: {len(body)}")
            await client.send(body)
        answers = [await client.answer() for _ in range(5)]

    assert [status for status, _, _ in answers] == [201] * 5


@pytest.mark.parametrize(
    ("behind", "late"),
    [
        (b"what is this?\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", False),
        (b"GET /tas", True),
    ],
    ids=["no HTTP", "too large", "not complete"],
)
async def test_a_request_is_not_answered_for_what_follows_it(
    make_api: MakeApi, monkeypatch: pytest.MonkeyPatch, behind: bytes, *, late: bool
) -> None:
    begun, done, last = asyncio.Event(), asyncio.Event(), asyncio.Event()
    received = HttpToolsProtocol.data_received

    def noted(self: HttpToolsProtocol, data: bytes) -> None:
        received(self, data)
        if data.endswith(behind[-8:]):
            last.set()

    monkeypatch.setattr(HttpToolsProtocol, "data_received", noted)

    async def work(request: Request, principal: Principal) -> Response:
        del request, principal
        begun.set()
        await done.wait()
        return Response(b"done")

    working = Route("POST", "/work", None, work, Operation("Work", "Tests"))
    head_seconds = 0.1 if late else PATIENCE
    api = make_api(more=[working], api_head_seconds=head_seconds)
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Content-Length: 0", method="POST /work")
        await begun.wait()
        await client.send(behind)
        await last.wait()
        if late:  # the server's clock is this loop's, and began to run before
            await asyncio.sleep(head_seconds)
        done.set()

        status, _, body = await client.answer()

        assert (status, body) == (200, b"done")
        assert await client.is_closed()


@pytest.mark.parametrize("ended_by", ["server", "client"])
async def test_who_reads_nothing_does_not_keep_a_connection(
    make_api: MakeApi, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    monkeypatch.setattr("taskbell.producer.api.protocol._PAUSE_SECONDS", 0.5)
    made: list[asyncio.Transport] = []
    lost = asyncio.Event()
    make, lose = Lingering.__init__, HttpToolsProtocol.connection_lost

    def noted(self: Lingering, transport: asyncio.Transport, *rest: Any) -> None:
        made.append(transport)
        make(self, transport, *rest)

    def noted_too(self: HttpToolsProtocol, exc: Exception | None) -> None:
        lost.set()
        lose(self, exc)

    monkeypatch.setattr(Lingering, "__init__", noted)
    monkeypatch.setattr(HttpToolsProtocol, "connection_lost", noted_too)

    async def answer(request: Request, principal: Principal) -> Response:
        del request, principal
        return Response(b"x" * 20_000)

    loop = asyncio.get_running_loop()
    api = make_api(more=[Route("GET", "/some", None, answer, Operation("Answer", "Tests"))])
    async with served(api) as port:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(0)
            await loop.sock_connect(client, ("127.0.0.1", port))
            # Until something does not fit the system's buffers: little, so that nobody is paused.
            while not (made and made[0].get_write_buffer_size()):
                await loop.sock_sendall(client, b"GET /some HTTP/1.1\r\nHost: api\r\n\r\n")
                await asyncio.sleep(0.01)
            if ended_by == "client":
                client.shutdown(socket.SHUT_WR)
            else:
                last = b"GET /livez HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n"
                await loop.sock_sendall(client, last)

            async with asyncio.timeout(PATIENCE):
                await lost.wait()


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: -5",),
        ("Transfer-Encoding: chunked, gzip",),
    ],
)
async def test_lengths_that_contradict_each_other_are_refused(
    api: Api, lines: tuple[str, ...]
) -> None:
    async with served(api) as port, _connected(api, port) as client:
        await client.head(*lines)
        await client.send(b"0\r\n\r\n")

        await _refused(client, 400, "malformed-request")


async def test_what_is_not_http_is_answered_in_our_shape(api: Api) -> None:
    async with served(api) as port, _connected(api, port) as client:
        await client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

        status, head, body = await client.answer()

        assert status == 400
        assert b"application/problem+json" in head
        assert b"urn:taskbell:problem:malformed-request" in body


async def test_an_unread_body_ends_the_connection(api: Api) -> None:
    async with served(api) as port, _connected(api, port) as client:
        await client.head("Content-Length: 100", method="GET /tasks")

        status, head, _ = await client.answer()

        assert status == 200
        assert b"connection: close" in head
        assert await client.is_closed()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "application/jsonp"},
    ],
)
async def test_a_body_that_is_not_json_is_not_read(api: Api, headers: dict[str, str]) -> None:
    answer = await api.client.post("/tasks", content=b'{"type":"noop"}', headers=headers)

    assert answer.status_code == 415
    assert answer.json()["type"] == "urn:taskbell:problem:unsupported-media-type"


@pytest.mark.parametrize("kind", ["application/json;charset=UTF-8", "Application/JSON"])
async def test_json_may_be_spelt_as_one_likes(api: Api, kind: str) -> None:
    headers = {"Content-Type": kind}

    answer = await api.client.post("/tasks", content=b'{"type":"noop"}', headers=headers)

    assert answer.status_code == 201


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"type":"noop"}x', b"\xff\xfe{}", b'{"type":"\xff"}', b"\xef\xbb\xbf{}",
     b'{"type":"noop","payload":' + b"9" * 5000 + b"}", '{"type":"noop"}'.encode("utf-16")],
)  # fmt: skip
async def test_what_is_not_json_is_called_so(api: Api, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}

    answer = await api.client.post("/tasks", content=content, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:taskbell:problem:malformed-request"


async def test_more_requests_than_may_be_at_once_are_told_to_come_back(make_api: MakeApi) -> None:
    api = make_api(api_in_flight=1)
    async with served(api) as port, _connected(api, port) as waiting:
        await waiting.head("Content-Length: 15", "Expect: 100-continue")
        await waiting.wait_for_100()  # the route asks for the body: the request is inside
        async with _connected(api, port) as refused:
            await refused.head(method="GET /tasks")
            status, head, body = await refused.answer()
        await waiting.send(b'{"type":"noop"}')

        assert status == 503
        assert b"retry-after: 1" in head
        assert b"urn:taskbell:problem:overloaded" in body
        assert (await waiting.answer())[0] == 201
    assert api.parts.traffic.in_flight == 0
