"""An issuer's keys: which one suits, when they are fetched, and how long the old ones do."""

import asyncio
import threading
from typing import Any

import pytest

from support.issuer import SigningKey
from support.waiting import PATIENCE
from taskbell.producer.api import issuer
from taskbell.producer.api.issuer import Issuer, IssuerAway, IssuerFound, IssuerLost, pick
from taskbell.shared.events import Event, ignore

URL = "https://issuer.example"
KEYS = "https://issuer.example/keys"
FIRST, SECOND = SigningKey("first"), SigningKey("second")
CURVED, EDWARDS = SigningKey("curved", "ES256"), SigningKey("edwards", "EdDSA")


class World:
    """A clock and an issuer of the test: what it publishes, and how often it was asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.published = [FIRST]
        self.away = False
        self.asked = 0
        self.hangs: threading.Event | None = None
        self.seen: list[Event] = []
        self.issuer = Issuer(URL, KEYS, self.seen.append, lambda: self.now, self.fetch)

    def fetch(self, url: str) -> object:
        """What the issuer answers."""
        assert url == KEYS
        self.asked += 1
        if self.hangs is not None:
            self.hangs.wait(PATIENCE)
        if self.away:
            raise OSError("nobody there")
        return {"keys": [key.jwk for key in self.published]}

    async def knows(self, key: SigningKey) -> bool:
        """Whether the issuer's key is found by its id."""
        return await self.issuer.key_for(key.kid, key.algorithm) is not None


@pytest.fixture
def world() -> World:
    return World()


async def test_keys_are_fetched_once_for_all_who_ask_at_once(world: World) -> None:
    known = await asyncio.gather(*(world.knows(FIRST) for _ in range(20)))

    assert known == [True] * 20
    assert world.asked == 1
    assert world.seen == [IssuerFound(URL, 1)]


async def test_an_unknown_key_is_looked_for_at_most_each_half_minute(world: World) -> None:
    await world.knows(FIRST)
    world.published = [FIRST, SECOND]

    world.now = 29.9
    assert not await world.knows(SECOND)
    world.now = 30.1
    assert await world.knows(SECOND)
    assert world.asked == 2
    for _ in range(5):
        assert not await world.knows(SigningKey("third", "EdDSA"))
    assert world.asked == 2


async def test_keys_are_fetched_anew_every_ten_minutes_and_nobody_waits_for_it(
    world: World,
) -> None:
    await world.knows(FIRST)
    world.published = [SECOND]

    world.now = 599.0
    assert await world.knows(FIRST)
    assert world.asked == 1
    world.now = 601.0
    assert await world.knows(FIRST)
    await world.issuer.at_rest()
    assert not await world.knows(FIRST)
    assert world.asked == 2


async def test_an_absent_issuer_is_lived_with_for_a_day(world: World) -> None:
    await world.knows(FIRST)
    world.away = True

    for world.now in (601.0, 7200.0, 24 * 3600.0):
        assert await world.knows(FIRST)
        await world.issuer.at_rest()
    assert world.seen == [IssuerFound(URL, 1), IssuerLost(URL, "OSError: nobody there")]
    world.now = 24 * 3600.0 + 1
    with pytest.raises(IssuerAway):
        await world.knows(FIRST)
    world.away, world.now = False, world.now + 6
    assert await world.knows(FIRST)
    assert world.seen[2:] == [IssuerFound(URL, 1)]


async def test_an_absent_issuer_is_not_asked_by_everybody(world: World) -> None:
    world.away = True
    for world.now in (0.0, 0.1, 4.9, 5.1):
        with pytest.raises(IssuerAway):
            await world.knows(FIRST)

    assert world.asked == 2


async def test_a_key_that_may_be_new_is_not_called_wrong_while_the_issuer_is_away(
    world: World,
) -> None:
    await world.knows(FIRST)
    world.away, world.now = True, 31.0

    with pytest.raises(IssuerAway):
        await world.knows(SECOND)
    assert await world.knows(FIRST)


async def test_whoever_goes_away_does_not_take_the_fetching_with_them(world: World) -> None:
    impatient = asyncio.ensure_future(world.knows(FIRST))
    patient = asyncio.ensure_future(world.knows(FIRST))
    await asyncio.sleep(0)
    impatient.cancel()

    assert await patient
    assert world.asked == 1


async def test_nobody_waits_for_a_fetching_that_another_unknown_key_began(world: World) -> None:
    await world.knows(FIRST)
    hangs, world.now = threading.Event(), 31.0
    world.hangs = hangs
    first = asyncio.ensure_future(world.knows(SECOND))
    await asyncio.sleep(0)
    try:
        for _ in range(5):
            with pytest.raises(IssuerAway):
                await world.knows(SigningKey("third", "EdDSA"))
        assert await world.knows(FIRST)
        assert not first.done()
    finally:
        world.published = [FIRST, SECOND]
        hangs.set()

    assert await first
    assert world.asked == 2


async def test_an_issuer_that_never_answers_holds_one_thread_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer, "DEADLINE", 0.1)
    hangs = world.hangs = threading.Event()
    try:
        for world.now in (0.0, 5.1, 10.2):
            with pytest.raises(IssuerAway):
                await world.knows(FIRST)
        assert world.asked <= 1  # none, if no thread came to it in time
    finally:
        hangs.set()
        monkeypatch.undo()

    while not await _knows_again(world):
        world.now += 5.1


async def _knows_again(world: World) -> bool:
    try:
        return await world.knows(FIRST)
    except IssuerAway:  # the thread has not returned yet
        return False


PUBLIC = [FIRST.jwk, SECOND.jwk, CURVED.jwk, EDWARDS.jwk]


@pytest.mark.parametrize("key", [FIRST, SECOND, CURVED, EDWARDS], ids=lambda key: key.kid)
def test_a_key_is_found_by_its_id(key: SigningKey) -> None:
    assert pick(PUBLIC, key.kid, key.algorithm) is not None


@pytest.mark.parametrize(
    ("keys", "kid", "algorithm"),
    [
        (PUBLIC, "third", "RS256"),
        (PUBLIC, None, "RS256"),  # two of them
        (PUBLIC, "curved", "RS256"),
        (PUBLIC, "first", "PS256"),  # published for another algorithm
        (PUBLIC, "first", "ES256"),
        (PUBLIC, "curved", "ES384"),
        ([FIRST.jwk, FIRST.jwk], "first", "RS256"),
        ([FIRST.jwk | {"use": "enc"}], "first", "RS256"),
        ([FIRST.jwk | {"n": "!"}], "first", "RS256"),
        ([FIRST.jwk | {"n": 5}], "first", "RS256"),
        ([{"kty": "RSA", "kid": "first"}], "first", "RS256"),
        ([{"kty": "oct", "kid": "first", "k": "c2VjcmV0"}], "first", "RS256"),
        ([SigningKey("weak", bits=1024).jwk], "weak", "RS256"),
    ],
)
def test_any_other_key_is_none(keys: list[dict[str, Any]], kid: str | None, algorithm: str) -> None:
    assert pick(keys, kid, algorithm) is None


def test_a_token_that_names_no_key_is_checked_with_the_only_one() -> None:
    unnamed = {name: value for name, value in FIRST.jwk.items() if name not in {"kid", "alg"}}

    assert pick([unnamed, CURVED.jwk], None, "PS384") is not None


@pytest.mark.parametrize(
    "url",
    ["http://issuer.example", "http://10.0.0.1", "file:///etc/passwd", "ftp://issuer.example", "",
     "https://", "issuer.example", "http://127.0.0.1.example"],
)  # fmt: skip
def test_an_address_that_anybody_could_answer_for_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^an issuer's address must be https://"):
        Issuer(url, None, ignore)


@pytest.mark.parametrize(
    "url", ["https://user:secret@issuer.example", "https://issuer.example@other.example",
            "https://@issuer.example"],
)  # fmt: skip
def test_an_address_with_a_user_is_refused_and_not_repeated(url: str) -> None:
    for address, keys in ((url, None), (URL, url)):
        with pytest.raises(ValueError, match=r"^an issuer's address must not hold a user") as told:
            Issuer(address, keys, ignore)
        assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="user"):
        issuer.discovered({"issuer": URL, "jwks_uri": url}, URL)


@pytest.mark.parametrize(
    "document",
    [
        None, [], {}, {"issuer": "https://other.example", "jwks_uri": KEYS}, {"issuer": URL},
        {"issuer": URL, "jwks_uri": 5}, {"issuer": URL, "jwks_uri": "http://issuer.example/keys"},
        {"issuer": URL + "/", "jwks_uri": KEYS},
    ],
)  # fmt: skip
def test_only_the_issuer_itself_says_where_its_keys_are(document: object) -> None:
    with pytest.raises(ValueError, match="issuer"):
        issuer.discovered(document, URL)


@pytest.mark.parametrize("document", [None, [], {"keys": {}}, "keys"])
def test_what_is_no_set_of_keys_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="not a set of keys"):
        issuer.keys_of(document)
