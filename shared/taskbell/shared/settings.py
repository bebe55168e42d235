"""What operators set, by environment variables with the prefix ``TASKBELL_``.

Only composition roots read these.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from taskbell.shared.address import conninfo, require_url
from taskbell.shared.database import Database
from taskbell.shared.limits import PAYLOAD_BYTES
from taskbell.shared.topology import QueueType

if TYPE_CHECKING:  # their libraries are extras, and loaded by those alone who set them up
    from taskbell.shared.sealing import Seals
    from taskbell.shared.storage import Storage

_MOST_DAYS = 36_500


class Settings(BaseSettings):
    """Settings every process knows."""

    model_config = SettingsConfigDict(env_prefix="TASKBELL_", frozen=True, extra="ignore")

    database_url: SecretStr
    """Where the task tables are: ``postgresql://user:password@host/database``."""

    amqp_url: SecretStr | None = None
    """Where RabbitMQ is: ``amqp://user:password@host/vhost``. Unset: brokerless."""

    behind_pooler: bool = False
    """A pooler in transaction mode (PgBouncer) stands before the database."""

    queue_type: QueueType = QueueType.CLASSIC
    """Which kind of RabbitMQ queue to declare."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    """``auto``: coloured lines on a terminal, JSON elsewhere."""

    retention_days: float = Field(default=7.0, gt=0, le=_MOST_DAYS)
    """How long completed and cancelled tasks are kept; failed ones stay until discarded.

    The most, a century, stands for ever.
    """

    seal_keys: SecretStr | None = None
    """Keys that seal payloads, results and errors: ``id:base64,id:base64``; the first one seals."""

    seal_keys_file: Path | None = None
    """The same from a file, ``id:base64`` a line; it may change while the process runs."""

    storage_url: str | None = None
    """Where large payloads and results are kept: ``file://``, ``s3://``, ``gs://``, ``az://``."""

    storage_inline_bytes: int = Field(default=64 * 1024, ge=0, le=PAYLOAD_BYTES)
    """What is longer is kept there instead of in the row."""

    @classmethod
    def read(cls, **given: Any) -> Self:
        """Read the environment; what is given and not None wins.

        Raises ``pydantic.ValidationError``; ``sentence`` tells it without values.
        """
        return cls(**{name: value for name, value in given.items() if value is not None})

    @field_validator("database_url")
    @classmethod
    def _is_postgres(cls, url: SecretStr) -> SecretStr:
        conninfo(url.get_secret_value())
        return url

    @field_validator("amqp_url")
    @classmethod
    def _is_amqp(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            example = "amqp://user:password@host/vhost (or amqps)"
            require_url(url.get_secret_value(), ("amqp", "amqps"), example)
        return url

    @property
    def database(self) -> Database:
        """The database these settings name."""
        return Database(self.database_url.get_secret_value(), behind_pooler=self.behind_pooler)

    @property
    def seals(self) -> "Seals | None":
        """What seals, if anything does; raises ``ValueError``, which never tells a key."""
        if self.seal_keys is None and self.seal_keys_file is None:
            return None
        from taskbell.shared.sealing import Seals  # noqa: PLC0415 - see above

        keys = self.seal_keys.get_secret_value() if self.seal_keys else None
        return Seals.of(keys, self.seal_keys_file)

    @property
    def storage(self) -> "Storage | None":
        """Where large content is kept, if anywhere; raises ``ValueError``."""
        return open_storage(self.storage_url, self.storage_inline_bytes)

    @property
    def broker_url(self) -> str | None:
        """RabbitMQ's URL in plain text, for the client library alone."""
        return self.amqp_url.get_secret_value() if self.amqp_url else None


def open_storage(url: str | None, inline_bytes: int) -> "Storage | None":
    """Open the storage of ``TASKBELL_STORAGE_URL``, if it names one; raises ``ValueError``."""
    if not url:
        return None
    from taskbell.shared.storage import Storage  # noqa: PLC0415 - see above

    try:
        return Storage.at(url, inline_bytes=inline_bytes)
    except ValueError as error:
        raise ValueError(f"TASKBELL_STORAGE_URL: {error}") from None


def sentence(error: ValidationError) -> str:
    """Say in one line which variables are wrong, without repeating what they hold."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(_said(each["loc"], each["msg"]) for each in found)


def _said(variable: tuple[int | str, ...], problem: str) -> str:
    problem = problem.removeprefix("Value error, ")
    if not variable:  # of several together, which it names itself
        return problem
    return f"TASKBELL_{'_'.join(map(str, variable)).upper()}: {problem}"
