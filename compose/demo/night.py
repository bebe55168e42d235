"""One bad night at the shop: halfway a consumer is killed and RabbitMQ forgets everything."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from demo.outcome import Outcome, prove
from demo.roles import Roles
from demo.state import Observatory, State
from demo.view import View
from services import RabbitMQ

# Other processes send the demo no signal: it looks at their logs and at Postgres, now and then.
LOOK_SECONDS = 0.2
# Far more than the work takes: after it, what has not ended counts as lost.
PATIENCE_SECONDS = 60.0
TASKS_A_SECOND = 40
START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Shop:
    """Everything one run uses."""

    engine: Engine
    directory: Path
    roles: Roles
    broker: RabbitMQ | None
    vhost: str
    view: View
    wanted: int

    @property
    def journal(self) -> Path:
        """Where the producer writes what it did."""
        return self.directory / "journal.jsonl"

    @property
    def receipts(self) -> Path:
        """Where the receipts go."""
        return self.directory / "receipts"


def live_through(shop: Shop) -> Outcome:
    """Run the whole night and prove what came of it."""
    observatory = Observatory(shop.engine)
    deadline = time.monotonic() + PATIENCE_SECONDS + shop.wanted / TASKS_A_SECOND
    if shop.broker is not None:
        shop.roles.start("relay", "taskbell.relay")
    for name in ("consumer-1", "consumer-2"):
        _start_consumer(shop, observatory, name)
    _wait_for_roles(shop)
    url = shop.engine.url.render_as_string(hide_password=False)
    shop.roles.start("producer", "demo.ordering", url, str(shop.journal), str(shop.wanted))
    shop.view.say(f"a producer, two consumers{' and a relay' if shop.broker else ''} are at work")
    _watch(shop, observatory, deadline, lambda state: state.ended >= shop.wanted / 2)
    _strike(shop, observatory)
    _watch(shop, observatory, deadline, lambda state: _is_over(shop, state))
    return prove(shop.engine, shop.journal, shop.receipts, shop.wanted)


def _start_consumer(shop: Shop, observatory: Observatory, name: str) -> None:
    shop.roles.start(name, "taskbell.consumer", "demo.handlers:app")
    observatory.follow(shop.roles.log(name))


def _wait_for_roles(shop: Shop) -> None:
    """Return when everybody is at their place, so that latencies tell of tasks, not of starts."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and not shop.roles.failed():
        if shop.roles.all_say(b'"role_started"'):
            return
        time.sleep(LOOK_SECONDS)


def _strike(shop: Shop, observatory: Observatory) -> None:
    shop.roles.kill("consumer-1")
    shop.view.say("halfway: consumer-1 was killed with SIGKILL")
    if shop.broker is not None:
        shop.broker.purge(shop.vhost)
        shop.view.say("halfway: RabbitMQ's queues were purged")
    _start_consumer(shop, observatory, "consumer-3")
    shop.view.say("consumer-3 takes its place, as an orchestrator would see to")


def _watch(
    shop: Shop, observatory: Observatory, deadline: float, done: Callable[[State], bool]
) -> None:
    reported: set[str] = set()
    while time.monotonic() < deadline:
        state = observatory.look()
        shop.view.show(state)
        if done(state):
            return
        for name in set(shop.roles.failed()) - reported:
            reported.add(name)
            shop.view.say(f"{name} failed: {shop.roles.last_words(name)}")
        if "producer" in reported:
            return
        time.sleep(LOOK_SECONDS)
    shop.view.say("patience is at its end")


def _is_over(shop: Shop, state: State) -> bool:
    return shop.roles.ended("producer") is not None and state.ended >= shop.wanted
