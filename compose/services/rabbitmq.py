"""A RabbitMQ that somebody runs: its addresses, and what tests and the demo do to it.

How it is run is the business of a `RabbitMQServer`: binaries of this machine (`nodes.py`), a
container (`containers.py`), or nobody we know (an address from outside).
"""

import time
from collections import Counter
from typing import Final, Protocol, Self
from urllib.parse import quote, urlsplit, urlunsplit

from services.guarded import ServiceError
from services.management import Management
from services.queue_state import QueueState, state_of

_PATIENCE: Final = 60.0
_TOTALS: Final = "disable_stats=true&enable_queue_totals=true"


class RabbitMQServer(Protocol):
    """Something that runs a RabbitMQ node for us."""

    @property
    def running(self) -> bool: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def wipe(self) -> None: ...

    def control(self, *command: str) -> None: ...

    def close(self) -> None: ...


class RabbitMQ:
    """A running RabbitMQ. All calls block: milliseconds, or seconds where the node changes."""

    def __init__(
        self,
        url: str,
        management_url: str | None,
        server: RabbitMQServer | None = None,
        origin: str = "",
    ) -> None:
        """`url` is `amqp://user:password@host:port/…`, `management_url` `http://user:password@…`.

        Without `server` it is not ours: it cannot be killed, started, wiped or alarmed.
        """
        self._parts = urlsplit(url)
        self.management_address = management_url
        """As it was given, so with user and password; never print it."""
        self._management = None if management_url is None else Management(management_url)
        self._server = server
        self._alarmed = False
        self.origin = origin
        """Where it came from, for people: "RabbitMQ 3.10.8 from /usr/lib/rabbitmq/bin"."""

    def __repr__(self) -> str:
        return f"<RabbitMQ {self._parts.hostname}:{self._parts.port}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The default vhost as the administrator; holds a password, never print it."""
        return urlunsplit(self._parts)

    @property
    def management_url(self) -> str:
        """For a browser, without user and password."""
        return self.management.url

    @property
    def user(self) -> str:
        """The administrator's name."""
        return self._parts.username or ""

    @property
    def password(self) -> str:
        """The administrator's password, for the management pages; say it to nobody but the user."""
        return self._parts.password or ""

    @property
    def version(self) -> str:
        return str(self.management.request("GET", "overview")["rabbitmq_version"])

    def url_of(self, vhost: str, user: str | None = None, password: str | None = None) -> str:
        """The URL of a vhost, as the administrator unless another user is named."""
        host = self._parts.netloc.rpartition("@")[2]
        login = self._parts.netloc.rpartition("@")[0]
        if user is not None:
            login = f"{quote(user, safe='')}:{quote(password or '', safe='')}"
        netloc = f"{login}@{host}" if login else host
        return urlunsplit((self._parts.scheme, netloc, f"/{quote(vhost, safe='')}", "", ""))

    def create_vhost(self, name: str) -> str:
        """Its URL, as the administrator, who may do everything in it."""
        self.management.request("PUT", "vhosts", name)
        self._permit(self.user, name, ".*", ".*", ".*")
        return self.url_of(name)

    def drop_vhost(self, name: str) -> None:
        """It is gone with its queues and connections; it must exist."""
        self.management.request("DELETE", "vhosts", name)

    def vhosts(self) -> list[str]:
        return [str(vhost["name"]) for vhost in self.management.request("GET", "vhosts")]

    def add_user(
        self, name: str, password: str, vhost: str, *, configure: str, write: str, read: str
    ) -> str:
        """The URL of that vhost as that user, who has these permissions (patterns) in it."""
        self.management.request("PUT", "users", name, body={"password": password, "tags": ""})
        self._permit(name, vhost, configure, write, read)
        return self.url_of(vhost, name, password)

    def delete_user(self, name: str) -> None:
        self.management.request("DELETE", "users", name)

    def _permit(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        patterns = {"configure": configure, "write": write, "read": read}
        self.management.request("PUT", "permissions", vhost, user, body=patterns)

    def queues(self, vhost: str) -> dict[str, QueueState]:
        """The vhost's queues by name."""
        # Without statistics, which are seconds behind, the totals come from the queues themselves.
        listed = self.management.request("GET", "queues", vhost, query=_TOTALS)
        consumers = self.management.request("GET", "consumers", vhost)
        served = Counter(consumer["queue"]["name"] for consumer in consumers)
        return {queue["name"]: state_of(queue, served[queue["name"]]) for queue in listed}

    def purge(self, vhost: str) -> None:
        """All its queues are empty but for what is unacknowledged."""
        for name in self.queues(vhost):
            self.management.request("DELETE", "queues", vhost, name, "contents")

    def delete_queues(self, vhost: str) -> None:
        for name in self.queues(vhost):
            self.management.request("DELETE", "queues", vhost, name)

    def close_connections(self, vhost: str | None = None, *, expected: int = 1) -> int:
        """How many the broker has closed: those of one vhost, or all.

        A new connection is listed within a second or so, hence waits until `expected` are.
        """
        path = ["connections"] if vhost is None else ["vhosts", vhost, "connections"]
        deadline = time.monotonic() + _PATIENCE
        while len(listed := self.management.request("GET", *path)) < expected:
            if time.monotonic() > deadline:
                raise ServiceError(f"only {len(listed)} of {expected} connections are open")
            time.sleep(0.05)
        for connection in listed:
            self.management.request("DELETE", "connections", str(connection["name"]))
        return len(listed)

    def flush(self) -> None:
        """What was declared until now is on disk; takes a second or two."""
        self._ours.control("eval", "mnesia:dump_log().")

    def gather_statistics(self, every: float) -> None:
        """Whoever connects from now on tells its counters so often (seconds); takes a second."""
        wanted = f"application:set_env(rabbit, collect_statistics_interval, {round(1000 * every)})."
        self._ours.control("eval", wanted)

    def memory_alarm(self, on: bool) -> None:  # noqa: FBT001 - a switch has two positions
        """Every publisher of the node is blocked, or no longer. A restart ends it too."""
        self._alarmed = on
        self._ours.control("set_vm_memory_high_watermark", "0.0000001" if on else "0.4")

    def control(self, *command: str) -> None:
        """Runs `rabbitmqctl` on the node; takes a second or two."""
        self._ours.control(*command)

    def kill(self) -> None:
        """The node is down at once (SIGKILL); what it had on disk stays.

        Now and then a queue declared just before is gone then: `flush()` first to keep it.
        """
        self._ours.kill()

    def start(self) -> None:
        """The node is up again, at the same addresses and with the same directory."""
        self._alarmed = False
        self._ours.start()

    def recover(self) -> None:
        """Whatever was done to the node: it is up, without alarm, vhosts or users but our own."""
        if not self._ours.running:
            self.start()
        if self._alarmed:
            self.memory_alarm(on=False)
        for vhost in set(self.vhosts()) - {"/"}:
            self.drop_vhost(vhost)
        for user in self.management.request("GET", "users"):
            if user["name"] != self.user:
                self.delete_user(user["name"])

    def wipe(self) -> None:
        """While down: all it had on disk is gone, so it starts blank but for the administrator."""
        self._ours.wipe()

    def stop(self) -> None:
        """The node has ended and its directory is gone, if we started it. May be repeated."""
        if self._server is not None:
            self._server.close()

    @property
    def management(self) -> Management:
        """Its HTTP API, for what has no verb here."""
        if self._management is None:
            raise ServiceError(
                "this needs RabbitMQ's management API: give its address as well "
                "(TASKBELL_TEST_AMQP_ADMIN_URL, http://user:password@host:15672)"
            )
        return self._management

    @property
    def _ours(self) -> RabbitMQServer:
        if self._server is None:
            raise ServiceError("this RabbitMQ was not started by us, so we leave its node alone")
        return self._server
