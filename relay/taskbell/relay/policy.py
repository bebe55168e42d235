"""The bounds of our queues, as a policy that operators can change while everything runs.

Set by RabbitMQ's management API: AMQP knows no policies. Only keys that RabbitMQ 3.10 knows: one
that it does not know would keep the whole policy from being applied.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from taskbell.shared.address import require_url

NAME: Final = "taskbell"
POLICY: Final[Mapping[str, Any]] = {
    "pattern": r"^taskbell\.q\.",
    "apply-to": "queues",
    "priority": 0,
    "definition": {
        "max-length": 50_000,
        "overflow": "reject-publish",
        "message-ttl": 30 * 60 * 1000,
    },
}
_PATIENCE: Final = 10.0
_NOT_FOUND: Final = 404


def require_management(url: str) -> SplitResult:
    """Return the parts of the management API's URL; raises ``ValueError``."""
    return require_url(url, ("http", "https"), "http(s)://user:password@host:port")


class PolicyRefused(Exception):
    """The management API could not be asked or said no; one sentence, never a password."""


class Management:
    """RabbitMQ's management API, as one user, about one vhost."""

    def __init__(self, url: str, amqp_url: str) -> None:
        """A URL without a user speaks as the user of ``amqp_url``, whose vhost is meant.

        Raises ``ValueError`` for what is not a URL of the management API.
        """
        parts, amqp = require_management(url), urlsplit(amqp_url)
        login = parts if parts.username else amqp
        user = unquote(login.username or "guest")
        password = unquote(login.password or "guest")
        host = parts.netloc.rpartition("@")[2]
        self.where = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self.vhost = unquote(amqp.path[1:]) or "/"
        self._authorization = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"

    def apply_policy(self) -> str:
        """Set the policy unless it is set already; returns what was done."""
        path = ("policies", self.vhost, NAME)
        found = self._request("GET", path)
        if found is not None and all(found.get(key) == POLICY[key] for key in POLICY):
            return "already as it should be"
        self._request("PUT", path, POLICY)
        return "set" if found is None else "set anew: it was different"

    def stronger_policies(self, queue: str) -> list[str]:
        """Return the policies that RabbitMQ applies to this queue instead: it applies only one."""
        listed = self._request("GET", ("policies", self.vhost)) or ()
        return [
            str(policy["name"])
            for policy in listed
            if policy["name"] != NAME
            and policy["priority"] > POLICY["priority"]
            and policy["apply-to"] != "exchanges"
            # From the policies rather than from the queue, which learns of them seconds later.
            and _matches(policy["pattern"], queue)
        ]

    def _request(
        self, method: str, path: tuple[str, ...], body: Mapping[str, object] | None = None
    ) -> Any:
        target = "/".join((self.where, "api", *(quote(part, safe="") for part in path)))
        request = Request(  # noqa: S310 - the scheme was checked
            target,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": self._authorization, "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urlopen(request, timeout=_PATIENCE) as response:  # noqa: S310 - as above
                answer = response.read()
        except HTTPError as error:
            with error:
                if method == "GET" and error.code == _NOT_FOUND:
                    return None
                raise PolicyRefused(f"{self.where} answered {error.code} {error.reason}") from None
        except (URLError, OSError, ValueError) as error:
            raise PolicyRefused(f"{self.where} cannot be asked: {error}") from None
        return json.loads(answer) if answer else None


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:  # Erlang's regular expressions know more than Python's
        return True
