"""Who is let in: one header, one scheme, and without authentication this machine alone."""

from collections.abc import Sequence
from ipaddress import IPv4Address

import pytest
from starlette.requests import Request

from taskbell.producer.api.gatekeeper import BearerGatekeeper, OpenGatekeeper
from taskbell.producer.api.keys import make_gatekeeper
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.settings import ApiSettings
from taskbell.shared.access import new_key
from taskbell.shared.connections import Connections
from taskbell.shared.events import ignore

EVERYWHERE = str(IPv4Address(0))
READER = Principal("tbk_reader00", "alice", frozenset({Scope.READ}))


class Known:
    """Credentials that are good if they are these; ``shown`` is what was shown to it."""

    def __init__(self, *good: str) -> None:
        self.good = good
        self.shown: list[str] = []

    async def principal_of(self, token: str) -> Principal | None:
        """READER for what is good."""
        self.shown.append(token)
        return READER if token in self.good else None

    def degraded(self) -> list[str]:
        """Need nothing."""
        return []

    async def at_rest(self) -> None:
        """Do nothing behind anybody's back."""


def asked(*headers: tuple[str, str], path: str = "/tasks", query: str = "") -> Request:
    written = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return Request(
        {"type": "http", "method": "GET", "path": path, "query_string": query.encode(),
         "headers": written}
    )  # fmt: skip


def gatekeeper(*good: str) -> tuple[BearerGatekeeper, Known, Known]:
    keys, tokens = Known(*good), Known(*good)
    return BearerGatekeeper(keys, tokens), keys, tokens


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
async def test_a_good_key_is_admitted_and_shown_to_no_issuer(scheme: str) -> None:
    key = new_key().text
    ours, keys, tokens = gatekeeper(key)

    assert await ours.admit(asked(("authorization", scheme + key)), Scope.READ) is READER
    assert (keys.shown, tokens.shown) == ([key], [])


async def test_what_is_no_key_is_shown_to_the_issuers_judge_alone() -> None:
    ours, keys, tokens = gatekeeper("a.b.c")

    assert await ours.admit(asked(("authorization", "Bearer a.b.c")), Scope.READ) is READER
    assert (keys.shown, tokens.shown) == ([], ["a.b.c"])


KEY = new_key().text


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "")],
        [("authorization", KEY)],
        [("authorization", f"Basic {KEY}")],
        [("authorization", f"Bearer  {KEY} x")],
        [("authorization", f"Bearer {KEY},{KEY}")],
        [("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {KEY}")],
        [("authorization", f"Bearer {KEY}\xb2")],
        [("authorization", "Bearer " + "a" * 8193)],
        [("cookie", f"authorization=Bearer {KEY}")],
        [("x-api-key", KEY)],
        [("proxy-authorization", f"Bearer {KEY}")],
    ],
)
async def test_credentials_come_in_one_header_and_nowhere_else(
    headers: Sequence[tuple[str, str]],
) -> None:
    ours, keys, tokens = gatekeeper(KEY)

    with pytest.raises(Problem) as caught:
        await ours.admit(asked(*headers, query=f"key={KEY}&access_token={KEY}"), Scope.READ)

    assert caught.value.kind.name == "unauthenticated"
    assert caught.value.headers == {"WWW-Authenticate": "Bearer"}
    assert keys.shown + tokens.shown == []


async def test_a_good_key_without_the_scope_is_told_which_one_is_missing() -> None:
    ours, _, _ = gatekeeper(KEY)

    with pytest.raises(Problem) as caught:
        await ours.admit(asked(("authorization", f"Bearer {KEY}")), Scope.OPERATE)

    assert (caught.value.kind.name, caught.value.detail) == (
        "forbidden", "this needs the scope operate",
    )  # fmt: skip


def settings(**given: object) -> ApiSettings:
    return ApiSettings.read(database_url="postgresql://localhost/none", **given)


def made(given: ApiSettings) -> object:
    return make_gatekeeper(given, Connections(given.database, "test", 1), ignore)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1"])
def test_without_authentication_a_loopback_address_is_served(host: str) -> None:
    assert isinstance(made(settings(api_auth="off", api_host=host)), OpenGatekeeper)


@pytest.mark.parametrize(
    "host", [EVERYWHERE, "::", "10.0.0.1", "localhost", "example.org", "", "127.0.0.1.example.org",
             "128.0.0.1", "2130706433"],
)  # fmt: skip
def test_without_authentication_any_other_address_is_refused_in_one_sentence(host: str) -> None:
    with pytest.raises(ValueError, match=r"^TASKBELL_API_AUTH=off makes everybody .*1, not ") as no:
        made(settings(api_auth="off", api_host=host))

    assert "\n" not in str(no.value)


def test_with_authentication_any_address_is_served() -> None:
    assert isinstance(made(settings(api_host=EVERYWHERE)), BearerGatekeeper)


@pytest.mark.parametrize(
    "headers",
    [
        [("host", "127.0.0.1:8080")],
        [("host", "localhost")],
        [("host", "[::1]:8080")],
        [],
        [("host", "localhost:1"), ("origin", "http://localhost:3000")],
    ],
)
async def test_this_machine_is_an_administrator_where_nobody_is_asked(
    headers: Sequence[tuple[str, str]],
) -> None:
    principal = await OpenGatekeeper().admit(asked(*headers), Scope.OPERATE)

    assert principal.may(Scope.ADMIN)
    assert principal.reach is None


@pytest.mark.parametrize(
    "headers",
    [
        [("host", "evil.example:8080")],
        [("host", "127.0.0.1.evil.example")],
        [("host", "localhost"), ("origin", "https://evil.example")],
        [("host", "localhost"), ("origin", "null")],
        [("host", "evil.example@localhost["), ("origin", "http://localhost")],
    ],
)
async def test_a_page_that_leads_a_browser_here_is_refused(
    headers: Sequence[tuple[str, str]],
) -> None:
    with pytest.raises(Problem) as caught:
        await OpenGatekeeper().admit(asked(*headers), Scope.READ)

    assert caught.value.kind.name == "forbidden"
