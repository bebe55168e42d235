"""What an operator sets for a consumer, on top of what every process knows."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from taskbell.producer.rules import require_queue
from taskbell.shared.settings import Settings


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",") if name.strip()]


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(require_queue("name", each) for each in names))


class ConsumerSettings(Settings):
    """Settings of ``taskbell consumer``."""

    slots: int = Field(default=20, ge=1, le=10_000)
    """How many handlers run at once."""

    queues: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(_split), AfterValidator(_checked)
    ] = ()
    """Comma-separated; empty: the queues of the application's handlers."""

    poll_interval: float = Field(default=0.7, gt=0, le=60)
    """Seconds between polls while RabbitMQ announces; the safety net.

    What is announced to a worker that froze, or whose host lost its network, waits for a poll of
    another until RabbitMQ knows. An empty poll costs about as much as a heartbeat.
    """

    grace: float = Field(default=25.0, ge=0)
    """Seconds that handlers get to finish after the first SIGTERM."""
