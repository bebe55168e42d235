"""RabbitMQ's management HTTP API: a request takes milliseconds, `rabbitmqctl` a second or two."""

import json
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from services.guarded import ServiceError


class Management:
    """Speaks to one management API. Every request has its own connection: nothing to close."""

    def __init__(self, url: str, patience: float = 20.0) -> None:
        """`url` is `http(s)://user:password@host:port`; `patience` in seconds, for each request."""
        self._parts = urlsplit(url)
        self._patience = patience

    def __repr__(self) -> str:
        return f"<Management {self._parts.hostname}:{self._parts.port}>"

    @property
    def url(self) -> str:
        """Where a person points a browser, without user and password."""
        host = self._parts.netloc.rpartition("@")[2]
        return urlunsplit((self._parts.scheme, host, self._parts.path, "", ""))

    def request(
        self, method: str, *path: str, query: str = "", body: Mapping[str, object] | None = None
    ) -> Any:
        """The decoded answer, none if it has no body; the path's parts are quoted here."""
        status, answer = self._exchange(method, path, query, body)
        if status >= 400:  # noqa: PLR2004 - where HTTP's errors begin
            raise ServiceError(
                f"RabbitMQ's management API answered {status} to {method} {'/'.join(path)}: "
                f"{answer.decode(errors='replace')[:300]}"
            )
        return json.loads(answer) if answer else None

    def answers(self, *path: str) -> bool:
        """Whether a GET of this path succeeds now."""
        try:
            return self._exchange("GET", path)[0] == 200  # noqa: PLR2004 - OK
        except ServiceError:
            return False

    def _exchange(
        self,
        method: str,
        path: tuple[str, ...],
        query: str = "",
        body: Mapping[str, object] | None = None,
    ) -> tuple[int, bytes]:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._patience)
        credentials = f"{unquote(self._parts.username or '')}:{unquote(self._parts.password or '')}"
        target = "/".join([self._parts.path.rstrip("/"), "api", *(quote(p, safe="") for p in path)])
        target += f"?{query}" if query else ""
        headers = {
            "Authorization": f"Basic {b64encode(credentials.encode()).decode()}",
            "Content-Type": "application/json",
        }
        try:
            connection.request(method, target, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException) as error:
            raise ServiceError(f"RabbitMQ's management API is away: {error!r}") from error
        finally:
            connection.close()
