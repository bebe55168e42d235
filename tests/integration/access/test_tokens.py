"""Tokens of an issuer that answers over HTTP: what is accepted, and what is not."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.issuer import AUDIENCE, IssuerServer, SigningKey, send_json
from taskbell.producer.api.issuer import IssuerLost
from taskbell.producer.api.oidc import TokenRefused, Tokens, tokens_of
from taskbell.producer.api.principal import Principal, Scope
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.settings import ApiSettings
from taskbell.shared.events import Event


class Judge:
    """The judge of an issuer's tokens, and what it reported."""

    def __init__(self, issuer: IssuerServer, **settings: Any) -> None:
        self.seen: list[Event] = []
        given: dict[str, Any] = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE, **settings}
        tokens = tokens_of(
            ApiSettings.read(database_url="postgresql://localhost/none", **given), self.seen.append
        )
        assert isinstance(tokens, Tokens)
        self.principal_of = tokens.principal_of

    @property
    def reasons(self) -> list[str]:
        """Why tokens were refused."""
        return [event.reason for event in self.seen if isinstance(event, TokenRefused)]


@pytest.fixture
def judge(issuer: IssuerServer) -> Judge:
    return Judge(issuer)


async def test_a_good_token_says_who_calls_and_what_they_may(
    issuer: IssuerServer, judge: Judge
) -> None:
    principal = await judge.principal_of(issuer.token())

    assert principal == Principal("oidc:alice", "alice", frozenset({Scope.READ, Scope.SUBMIT}))
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_a_token_that_was_good_is_believed_without_asking_again(
    issuer: IssuerServer, judge: Judge
) -> None:
    token = issuer.token()
    first = await judge.principal_of(token)
    issuer.keys.clear()

    assert await judge.principal_of(token) is first
    assert len(issuer.asked) == 2


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": "https://other.example"}, "InvalidIssuerError"),
        ({"iss": None}, "MissingRequiredClaimError"),
        ({"aud": "another"}, "InvalidAudienceError"),
        ({"aud": ["another"]}, "InvalidAudienceError"),
        ({"aud": None}, "MissingRequiredClaimError"),
        ({"exp": 1_700_000_000}, "ExpiredSignatureError"),
        ({"exp": None}, "MissingRequiredClaimError"),
        ({"exp": "never"}, "DecodeError"),
        ({"nbf": 4_000_000_000}, "ImmatureSignatureError"),
        ({"iat": 4_000_000_000}, "ImmatureSignatureError"),
        ({"sub": None}, "InvalidTask"),
        ({"sub": ""}, "ValueError"),
        ({"sub": "a\x00b"}, "InvalidTask"),
        ({"sub": "a" * 201}, "InvalidTask"),
        ({"sub": 7}, "InvalidSubjectError"),
    ],
)
async def test_a_token_with_another_claim_is_refused(
    issuer: IssuerServer, judge: Judge, changed: dict[str, Any], reason: str
) -> None:
    assert await judge.principal_of(issuer.token(**changed)) is None
    assert judge.reasons == [reason]


async def test_a_token_of_an_audience_among_others_is_accepted(
    issuer: IssuerServer, judge: Judge
) -> None:
    assert await judge.principal_of(issuer.token(aud=["another", AUDIENCE])) is not None


@pytest.mark.parametrize("algorithm", ["RS512", "PS256", "ES256", "EdDSA"])
async def test_any_asymmetric_algorithm_is_accepted_from_its_own_key(
    issuer: IssuerServer, judge: Judge, algorithm: str
) -> None:
    issuer.keys.append(SigningKey("other", algorithm))

    assert await judge.principal_of(issuer.keys[1].sign(issuer.claims())) is not None


def encoded(part: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")


def unsigned(issuer: IssuerServer) -> str:
    return b".".join((encoded({"alg": "none"}), encoded(issuer.claims()), b"")).decode()


def signed_with_the_public_key(issuer: IssuerServer) -> str:
    public = issuer.keys[0].private.public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = encoded({"alg": "HS256", "kid": "first"}) + b"." + encoded(issuer.claims())
    tag = hmac.digest(secret, head, hashlib.sha256)
    return (head + b"." + base64.urlsafe_b64encode(tag).rstrip(b"=")).decode()


def signed_by_a_stranger(issuer: IssuerServer) -> str:
    return SigningKey("first").sign(issuer.claims())


def with_an_unknown_key(issuer: IssuerServer) -> str:
    return issuer.keys[0].sign(issuer.claims(), kid="unknown")


def with_what_must_be_understood(issuer: IssuerServer) -> str:
    return issuer.keys[0].sign(issuer.claims(), crit=["exp"])


def with_other_claims(issuer: IssuerServer) -> str:
    head, _, tag = issuer.token().split(".")
    return f"{head}.{encoded(issuer.claims(sub='bob')).decode()}.{tag}"


def cut_short(issuer: IssuerServer) -> str:
    return issuer.token()[:-2]


def without_signature(issuer: IssuerServer) -> str:
    return issuer.token().rpartition(".")[0] + "."


Forgery = Callable[[IssuerServer], str]


def text(token: str) -> Forgery:
    return lambda _: token


def headed(header: object) -> Forgery:
    return lambda issuer: f"{encoded(header).decode()}.{encoded(issuer.claims()).decode()}.AAAA"


DEEP = base64.urlsafe_b64encode(b"[" * 5000).decode()


@pytest.mark.parametrize(
    "forged",
    [
        unsigned, signed_with_the_public_key, signed_by_a_stranger, with_an_unknown_key,
        with_what_must_be_understood, with_other_claims,
        headed({"alg": "RS256", "kid": 5}), headed({"alg": ["RS256"], "kid": "first"}),
        headed({"alg": {}}), headed([]), headed("RS256"), headed({}),
        text(""), text("a.b.c"), text("a" * 8192), text(f"{DEEP}.{DEEP}.{DEEP}"),
        cut_short, without_signature,
    ],
)  # fmt: skip
async def test_what_the_issuer_did_not_sign_is_refused(
    issuer: IssuerServer, judge: Judge, forged: Forgery
) -> None:
    token = forged(issuer)

    assert await judge.principal_of(token) is None
    assert len(judge.reasons) == 1
    assert "alice" not in repr(judge.seen)


async def test_the_claims_of_owner_and_scopes_can_be_others(issuer: IssuerServer) -> None:
    judge = Judge(
        issuer, oidc_owner_claim="https://example.org/team", oidc_scope_claim="roles",
        oidc_scope_prefix="",
    )  # fmt: skip
    claims = {"https://example.org/team": "blue", "roles": ["admin", "cook", 5], "sub": "tbk_a"}

    principal = await judge.principal_of(issuer.token(**claims))

    assert principal == Principal("oidc:tbk_a", "blue", frozenset({Scope.ADMIN}))


@pytest.mark.parametrize(
    "scope",
    [None, "", 5, {"taskbell:admin": True}, "admin read", "taskbell: admin", "taskbell:ADMIN",
     ["openid taskbell:admin"], True],
)  # fmt: skip
async def test_scopes_that_are_not_ours_allow_nothing(
    issuer: IssuerServer, judge: Judge, scope: object
) -> None:
    principal = await judge.principal_of(issuer.token(scope=scope))

    assert principal is not None
    assert principal.scopes == frozenset()


Answer = Callable[[BaseHTTPRequestHandler], None]


def redirecting(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/keys")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def of_another_issuer(handler: BaseHTTPRequestHandler) -> None:
    send_json(handler, {"issuer": "https://other.example", "jwks_uri": "https://other.example/k"})


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(10 * 1024 * 1024))
    handler.end_headers()
    try:
        for _ in range(10):
            handler.wfile.write(b" " * 1024 * 1024)
    except OSError:  # whoever asked has gone away
        handler.close_connection = True


def no_json(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"[" * 100_000)


def dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" ")
            threading.Event().wait(0.05)
    except OSError:  # whoever asked has gone away
        handler.close_connection = True


async def test_an_answer_that_does_not_end_is_not_waited_for(
    issuer: IssuerServer, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskbell.producer.api.trusted.DEADLINE", 1.0)
    issuer.answers["/.well-known/openid-configuration"] = dripping

    with pytest.raises(Problem) as caught:
        await judge.principal_of(issuer.token())

    assert caught.value.kind.name == "issuer-away"
    lost = [event.error for event in judge.seen if isinstance(event, IssuerLost)]
    assert lost == ["TimeoutError: the answer does not end"]


@pytest.mark.parametrize("answer", [redirecting, of_another_issuer, endless, no_json])
async def test_an_issuer_that_answers_something_else_counts_as_away(
    issuer: IssuerServer, judge: Judge, answer: Answer
) -> None:
    issuer.answers["/.well-known/openid-configuration"] = answer

    with pytest.raises(Problem) as caught:
        await judge.principal_of(issuer.token())

    assert caught.value.kind.name == "issuer-away"
    assert caught.value.headers == {"Retry-After": "5"}
    assert "/keys" not in issuer.asked


async def test_the_keys_can_be_named_instead_of_found(issuer: IssuerServer) -> None:
    judge = Judge(issuer, oidc_jwks_url=f"{issuer.url}/keys")

    assert await judge.principal_of(issuer.token()) is not None
    assert issuer.asked == ["/keys"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"oidc_audience": ""}, "^TASKBELL_OIDC_ISSUER needs TASKBELL_OIDC_AUDIENCE"),
        ({"oidc_issuer": "http://issuer.example"}, "^an issuer's address must be https://"),
        ({"oidc_jwks_url": "http://issuer.example"}, "^an issuer's address must be https://"),
    ],
)
def test_settings_that_cannot_be_trusted_are_refused(
    issuer: IssuerServer, settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Judge(issuer, **settings)
