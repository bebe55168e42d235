"""An OpenID Connect issuer on this machine: keys, tokens, and a server that may be turned off."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE: Final = "taskbell"


class SigningKey:
    """A private key of the issuer, and what it publishes of it."""

    def __init__(self, kid: str, algorithm: str = "RS256", bits: int = 2048) -> None:
        self.kid = kid
        self.algorithm = algorithm
        self.private, self._public = _made(algorithm, bits)

    @property
    def jwk(self) -> dict[str, Any]:
        """The public half."""
        return self._public | {"kid": self.kid, "alg": self.algorithm, "use": "sig"}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A token with these claims."""
        headers = {"kid": self.kid, **header}
        return jwt.encode(claims, self.private, self.algorithm, headers=headers)


def _made(algorithm: str, bits: int) -> tuple[Any, dict[str, Any]]:
    if algorithm.startswith("ES"):
        private: Any = ec.generate_private_key(ec.SECP256R1())
        return private, dict(ECAlgorithm.to_jwk(private.public_key(), as_dict=True))
    if algorithm == "EdDSA":
        private = ed25519.Ed25519PrivateKey.generate()
        return private, dict(OKPAlgorithm.to_jwk(private.public_key(), as_dict=True))
    private = rsa.generate_private_key(65537, bits)
    return private, dict(RSAAlgorithm.to_jwk(private.public_key(), as_dict=True))


Answer = Callable[[BaseHTTPRequestHandler], None]


class IssuerServer:
    """Publishes keys on ``http://127.0.0.1``; ``asked`` are the paths it was asked for."""

    def __init__(self) -> None:
        self.keys = [SigningKey("first")]
        self.asked: list[str] = []
        self.answers: dict[str, Answer] = {
            "/.well-known/openid-configuration": lambda handler: send_json(
                handler, {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
            ),
            "/keys": lambda handler: send_json(handler, {"keys": [key.jwk for key in self.keys]}),
        }
        """What it answers, by path; a test may put other answers in their place."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._serving.start()

    @property
    def url(self) -> str:
        """The issuer's name."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Good claims of alice, who may read and submit; None leaves one out."""
        now = int(time.time())
        good: dict[str, Any] = {
            "iss": self.url, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 3600,
            "scope": "openid taskbell:read taskbell:submit",
        }  # fmt: skip
        return {name: value for name, value in (good | changed).items() if value is not None}

    def token(self, **changed: Any) -> str:
        """A good token, signed by the first key, but for the claims that are changed."""
        return self.keys[0].sign(self.claims(**changed))

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()


def send_json(handler: BaseHTTPRequestHandler, document: object) -> None:
    """Answer with a JSON document."""
    body = json.dumps(document).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _handler(server: IssuerServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.path)
            answer = server.answers.get(self.path)
            if answer is None:
                self.send_error(404)
            else:
                answer(self)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the framework's
            del format, args

    return Handler


@pytest.fixture
def issuer() -> Iterator[IssuerServer]:
    """An issuer with one RSA key."""
    server = IssuerServer()
    yield server
    server.close()
