"""Objects on a directory and on an S3 server: read back, missing, changed, linked; or away."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import pytest

from services.guarded import LOOPBACK, Port
from support.stores import Stand, http, s3_environment
from taskbell.shared.errors import StorageAway, Unreadable
from taskbell.shared.limits import STORED_BYTES
from taskbell.shared.storage import Location, Storage
from taskbell.shared.storage.location import owner_segment

Put = Callable[[Storage, bytes], Awaitable[str]]
TASK_ID = UUID("01990000-0000-7000-8000-000000000001")


async def put(storage: Storage, body: bytes) -> str:
    return await storage.put("payload", TASK_ID, "alice", body)


async def put_blocking(storage: Storage, body: bytes) -> str:
    return await asyncio.to_thread(storage.put_blocking, "payload", TASK_ID, "alice", body)


both = pytest.mark.parametrize("write", [put, put_blocking])


@both
@pytest.mark.parametrize("size", [0, 1, 70_000, 9_000_000])
async def test_an_object_is_read_back(stand: Stand, write: Put, size: int) -> None:
    body = os.urandom(size)

    location = await write(stand.storage, body)

    assert await stand.storage.get(location) == body
    assert location.endswith(f"#sha256={sha256(body).hexdigest()}&size={size}")
    assert await stand.storage.beginning(location, 5) == body[:5]


@both
@pytest.mark.parametrize("changed", [b'{"a":2}', b'{"a":1} ', b""])
async def test_a_changed_object_is_noticed(stand: Stand, write: Put, changed: bytes) -> None:
    location = await write(stand.storage, b'{"a":1}')
    stand.write(Location.read(location).path, changed)

    with pytest.raises(Unreadable, match="changed"):
        await stand.storage.get(location)


@both
async def test_a_missing_object_is_missing(stand: Stand, write: Put) -> None:
    location = await write(stand.storage, b"{}")
    stand.remove(Location.read(location).path)

    with pytest.raises(Unreadable, match="missing"):
        await stand.storage.get(location)
    with pytest.raises(Unreadable, match="missing"):
        await stand.storage.beginning(location, 1)


@both
async def test_a_missing_root_is_not_a_missing_object(stand: Stand, write: Put) -> None:
    location = await write(stand.storage, b"{}")
    stand.remove(Location.read(location).path)
    stand.remove_root()

    with pytest.raises(StorageAway):
        await stand.storage.get(location)
    with pytest.raises(StorageAway):
        await write(stand.storage, b"{}")
    with pytest.raises(StorageAway):
        await stand.storage.offered(offer("a", b"{}"), "alice")
    assert stand.directory is None or not stand.directory.exists()


@pytest.fixture(params=["refuses", "is silent"])
def absent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A storage whose server refuses connections, or takes them and never answers."""
    with socket.socket() as silent:
        port = Port()
        number = port.number
        if request.param == "is silent":
            silent.bind((LOOPBACK, 0))
            silent.listen(100)
            number = silent.getsockname()[1]
        for variable, value in s3_environment(f"http://{LOOPBACK}:{number}").items():
            monkeypatch.setenv(variable, value)
        yield Storage.at("s3://bucket", inline_bytes=64, deadline=2.0)
        port.release()


async def test_a_server_that_does_not_answer_is_away_and_says_no_secret(absent: Storage) -> None:
    location = str(Location.fresh("payload", TASK_ID, "alice", b"{}"))
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: put(absent, b"{}"),
        lambda: put_blocking(absent, b"{}"),
        lambda: absent.get(location),
        lambda: absent.beginning(location, 1),
        lambda: absent.offered(offer("a", b"{}"), "alice"),
        lambda: absent.listed("", 10),
        lambda: absent.delete(["payload/_/a"]),
        lambda: absent.belongs_to("us"),
    ]

    async def refused(call: Callable[[], Awaitable[object]]) -> str:
        with pytest.raises(StorageAway) as caught:
            await call()
        return str(caught.value)

    for told in await asyncio.gather(*map(refused, calls)):
        assert "secret" not in told
        assert "\n" not in told


async def test_a_link_opens_without_our_credentials(s3_stand: Stand) -> None:
    location = await put(s3_stand.storage, b'{"a":1}')

    link = await s3_stand.storage.link(location, 77)

    assert link is not None
    assert http("GET", link) == b'{"a":1}'
    assert parse_qs(urlsplit(link).query)["X-Amz-Expires"] == ["77"]
    with pytest.raises(HTTPError):
        http("GET", link.replace(Location.read(location).path, "payload/_/other"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket/some/prefix", "https://s3.us-east-1.amazonaws.com/bucket/some/prefix/"),
        ("s3://bucket", "https://s3.us-east-1.amazonaws.com/bucket/"),
        ("az://container/some/prefix", "https://us.blob.core.windows.net/container/some/prefix/"),
    ],
)
async def test_a_link_leads_into_the_root(
    url: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
        "AZURE_STORAGE_ACCOUNT_NAME": "us", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5",
    }.items():  # fmt: skip
        monkeypatch.setenv(variable, value)
    location = Location.fresh("payload", TASK_ID, "", b"{}")

    link = await Storage.at(url, inline_bytes=64).link(str(location), 60)

    assert link is not None
    assert link.startswith(f"{expected}{location.path}?")


async def test_a_directory_signs_nothing(file_stand: Stand) -> None:
    location = await put(file_stand.storage, b"{}")

    assert await file_stand.storage.link(location, 60) is None


async def test_a_store_whose_credentials_sign_nothing_is_not_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in s3_environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    storage = Storage.at("s3://bucket", inline_bytes=64)
    location = str(Location.fresh("payload", TASK_ID, "alice", b"{}"))

    assert await storage.link(location, 60) is None
    assert not storage.is_away


def offer(name: str, body: bytes, *, owner_id: str = "alice", size: int | None = None) -> str:
    path = f"client/{owner_segment(owner_id)}/{name}"
    return str(Location(path, sha256(body).hexdigest(), len(body) if size is None else size))


async def test_what_a_client_offers_is_looked_at(stand: Stand) -> None:
    stand.write(f"client/{owner_segment('alice')}/dir/a", b"[1]")
    location = offer("dir/a", b"[1]")

    assert str(await stand.storage.offered(location, "alice")) == location
    for refused, owner_id in [
        (location, "bob"),
        (location, ""),
        (offer("dir/b", b"[1]"), "alice"),
        (offer("dir/a", b"[1]", size=4), "alice"),
        (offer("dir/a", b"[1]", size=STORED_BYTES + 1), "alice"),
        (str(Location.fresh("payload", TASK_ID, "alice", b"[1]")), "alice"),
        ("client/../payload/_/a#sha256=" + "0" * 64 + "&size=1", "alice"),
    ]:
        with pytest.raises(ValueError, match=r"not|there|longer"):
            await stand.storage.offered(refused, owner_id)


async def test_a_list_goes_on_where_it_ended_and_ends(stand: Stand) -> None:
    written = [
        Location.read(await stand.storage.put(kind, uuid4(), owner, b"{}")).path
        for kind in ("payload", "result")
        for owner in ("", "alice", "bob")
        for _ in range(3)
    ]
    stand.write("client/_/a", b"")
    stand.write("taskbell", b"")
    stand.write("payloads/_/a", b"")

    listed: list[str] = []
    while page := await stand.storage.listed(listed[-1] if listed else "", 4):
        assert len(page) <= 4
        listed += [found.path for found in page]

    assert listed == sorted(written)


async def test_deleting_what_is_gone_is_fine(stand: Stand) -> None:
    paths = [Location.read(await put(stand.storage, b"{}")).path for _ in range(3)]
    stand.remove(paths[0])

    await stand.storage.delete(paths)

    assert not any(map(stand.holds, paths))


async def test_a_root_belongs_to_the_first_who_marked_it(stand: Stand) -> None:
    assert await stand.storage.belongs_to("1/2")
    assert await stand.storage.belongs_to("1/2")
    assert not await stand.storage.belongs_to("1/3")


async def test_a_link_in_a_row_leads_nowhere_else(file_stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    for path in ("../secret", "payload/../../secret", "payload/_/%2e%2e/%2e%2e/%2e%2e/secret"):
        with pytest.raises(Unreadable, match="changed"):
            await file_stand.storage.get(f"{path}#sha256={sha256(b'x').hexdigest()}&size=1")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/srv/objects",
        "file://objects",
        "file:///there/is/no/such/directory",
        "file://host/tmp",
        "http://host/bucket",
        "memory:///",
        "s3://user:hunter2@bucket",
        "s3://bucket?secret_access_key=hunter2",
        "s3://",
        "az://container",
    ],
)
def test_a_url_that_names_no_storage_is_refused_without_being_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(ValueError, match=r"not|names|opened") as caught:
        Storage.at(url, inline_bytes=64)

    assert "hunter2" not in str(caught.value)
