"""What operators of the HTTP interface set, by variables with the prefix ``TASKBELL_``."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from taskbell.shared.limits import PAYLOAD_BYTES, STORED_BYTES
from taskbell.shared.settings import Settings


class ApiSettings(Settings):
    """Settings of ``taskbell api``."""

    api_host: str = "127.0.0.1"
    api_port: int = Field(default=8080, ge=0, le=65535)

    api_auth: Literal["on", "off"] = "on"
    """``off``: everybody is an administrator; refused on any address but a loopback one."""

    api_connections: int = Field(default=10, ge=1, le=1000)
    """Connections to the database."""

    api_body_bytes: int = Field(default=2 * PAYLOAD_BYTES, ge=1024, le=2 * STORED_BYTES)
    api_body_seconds: float = Field(default=10.0, gt=0)
    """How long a body may take to arrive."""

    api_head_bytes: int = Field(default=32 * 1024, ge=1024, le=1024 * 1024)
    api_head_seconds: float = Field(default=10.0, gt=0)

    api_in_flight: int = Field(default=1000, ge=1)
    """Most requests at once; more are told to come back."""

    api_streams: int = Field(default=1000, ge=0)
    """Most event streams at once, cancels that wait for an end included."""
    api_owner_streams: int = Field(default=100, ge=0)
    """Most of them that one owner may have."""
    api_stream_seconds: float = Field(default=300.0, gt=0)
    """A stream ends after this long, and its client comes back with its key."""

    api_content_bytes: int = Field(default=256 * 1024 * 1024, ge=PAYLOAD_BYTES)
    """Most bytes of payloads and results in memory at once, on their way to those who read them."""

    api_link_seconds: int = Field(default=300, ge=1, le=7 * 24 * 3600)
    """How long a link to an object is good."""

    api_key_seconds: float = Field(default=5.0, ge=0)
    """How long a key that was found good is believed; a revoked one works no longer than that."""

    api_metrics_open: bool = False
    """Whether /metrics answers without credentials."""

    api_tls_cert: Path | None = None
    api_tls_key: Path | None = None

    @model_validator(mode="after")
    def _has_whole_tls(self) -> Self:
        if (self.api_tls_cert is None) != (self.api_tls_key is None):
            raise ValueError("TASKBELL_API_TLS_CERT and TASKBELL_API_TLS_KEY go together")
        return self

    api_grace: float = Field(default=10.0, ge=0)
    """How long requests may take to end once the process is asked to."""

    oidc_issuer: str | None = None
    oidc_audience: str | None = None
    oidc_jwks_url: str | None = None
    """Where the issuer's keys are; unset: by discovery."""
    oidc_owner_claim: str = "sub"
    oidc_scope_claim: str = "scope"
    oidc_scope_prefix: str = "taskbell:"
