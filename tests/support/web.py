"""A client of the HTTP interface as anybody may write one: plain sockets, no library of ours."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Final

from services.guarded import LOOPBACK
from support.commands import told

_PATIENCE: Final = 60.0
ALL_SCOPES: Final = ("submit", "read", "cancel", "operate")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str

    @property
    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a key; every request has a connection of its own."""

    port: int
    key: str = field(repr=False)
    trusts: ssl.SSLContext | None = None
    host: str = LOOPBACK

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and read all of the answer; raises ``OSError``."""
        given = {"Authorization": f"Bearer {self.key}", **(headers or {})}
        if body is not None:
            given["Content-Type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), given)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read().decode())
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        if self.trusts is None:
            return HTTPConnection(self.host, self.port, timeout=_PATIENCE)
        return HTTPSConnection(self.host, self.port, timeout=_PATIENCE, context=self.trusts)


def new_key(database_url: str, owner: str, *scopes: str) -> str:
    """Make a key as an operator would; returns what is shown once."""
    asked = [word for scope in scopes or ALL_SCOPES for word in ("--scope", scope)]
    made = told("keys", "create", "--owner", owner, "--database-url", database_url, *asked)
    return str(made["key"])
