"""What operators of relays set, by environment variables with the prefix ``TASKBELL_``."""

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from taskbell.relay.policy import require_management
from taskbell.shared.settings import Settings


class RelaySettings(Settings):
    """Settings of ``taskbell relay`` and ``taskbell broker apply``."""

    relay_window: int = Field(default=2000, ge=1, le=100_000)
    """How many due entries of a queue may be announced and unclaimed at a time."""

    relay_batch: int = Field(default=1000, ge=1, le=10_000)
    """How many entries of a queue one pass marks."""

    relay_publish_deadline: float = Field(default=5.0, gt=0)
    """Seconds after which whatever RabbitMQ has not answered counts as unknown."""

    relay_in_flight: int = Field(default=250, ge=1)
    """How many announcements may wait for their confirm at a time."""

    relay_declare: Literal["auto", "never"] = "auto"
    """``never``: exchange and queues are somebody else's business (``taskbell broker apply``)."""

    management_url: SecretStr | None = None
    """RabbitMQ's management API for ``broker apply``: ``https://user:password@host:15671``."""

    @field_validator("management_url")
    @classmethod
    def _is_management(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            require_management(url.get_secret_value())
        return url
