"""Access: who may call the HTTP interface, how fast, and the keys that seal what they send."""

from datetime import datetime

from sqlalchemy import CheckConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from taskbell.shared.rows.declaration import ROOMY, Row, now, table

__all__ = ["ApiKey", "DataKey", "RateLimit", "Secret"]


class ApiKey(Row):
    """Who may call the HTTP interface; the key itself is never stored."""

    __tablename__ = "api_key"
    __table_args__ = (
        CheckConstraint("octet_length(prefix) BETWEEN 1 AND 200", name="api_key_prefix"),
        CheckConstraint("octet_length(key_hash) = 32", name="api_key_sha256"),
        CheckConstraint("octet_length(owner_id) <= 200", name="api_key_owner_id"),
        CheckConstraint(
            "scopes <@ ARRAY['submit','read','cancel','operate','admin'] "
            "AND cardinality(scopes) > 0",
            name="api_key_scopes",
        ),
        Index("api_key_sign_in", "key_hash", unique=True),
        table(
            "Who may call the HTTP interface for which owner; the key itself is never stored.",
            ROOMY,
        ),
    )

    prefix: Mapped[str] = mapped_column(
        primary_key=True,
        comment="The first characters of the key, which may be shown: the name of the key.",
    )
    key_hash: Mapped[bytes] = mapped_column(comment="SHA-256 of the whole key.")
    owner_id: Mapped[str]
    label: Mapped[str] = mapped_column(server_default="", comment="What people call it.")
    scopes: Mapped[list[str]] = mapped_column(comment="What the key may do.")
    created_at: Mapped[datetime] = mapped_column(server_default=now())
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class RateLimit(Row):
    """How fast an owner or an API key may submit: limit and bucket in one row."""

    __tablename__ = "rate_limit"
    __table_args__ = (
        CheckConstraint("scope IN ('owner','key')", name="rate_limit_scope"),
        CheckConstraint("octet_length(name) <= 200", name="rate_limit_name"),
        CheckConstraint("rate > 0 AND rate < 'Infinity'", name="rate_limit_rate"),
        CheckConstraint("burst >= 1 AND burst < 'Infinity'", name="rate_limit_burst"),
        table(
            "How many tasks a second an owner or an API key may submit; "
            "whoever has no row is not limited.",
            ROOMY,
        ),
    )

    scope: Mapped[str] = mapped_column(primary_key=True, comment="owner or key.")
    name: Mapped[str] = mapped_column(
        primary_key=True, comment="The owner, or the prefix of the key."
    )
    rate: Mapped[float] = mapped_column(comment="Tokens a second.")
    burst: Mapped[float] = mapped_column(comment="Most tokens the bucket holds.")
    tokens: Mapped[float] = mapped_column(comment="How many there were at refilled_at.")
    refilled_at: Mapped[datetime] = mapped_column(server_default=now())


class DataKey(Row):
    """A key of one owner; once erased, what it sealed is unreadable for ever."""

    __tablename__ = "data_key"
    __table_args__ = (
        CheckConstraint("octet_length(key_id) BETWEEN 1 AND 32", name="data_key_key_id"),
        CheckConstraint("octet_length(owner_id) BETWEEN 1 AND 200", name="data_key_owner_id"),
        CheckConstraint("(wrapped IS NULL) = (erased_at IS NOT NULL)", name="data_key_erased"),
        Index(
            "data_key_owner",
            "owner_id",
            unique=True,
            postgresql_where=text("erased_at IS NULL"),
        ),
        table(
            "Keys of single owners, wrapped by the key ring; "
            "erasing one makes all it sealed unreadable."
        ),
    )

    key_id: Mapped[str] = mapped_column(primary_key=True)
    owner_id: Mapped[str]
    wrapped: Mapped[bytes | None] = mapped_column(
        comment="The key, sealed by a key of the ring; gone once erased."
    )
    created_at: Mapped[datetime] = mapped_column(server_default=now())
    erased_at: Mapped[datetime | None]


class Secret(Row):
    """A random value that all replicas of the HTTP interface share."""

    __tablename__ = "secret"
    __table_args__ = (table("Random values that all replicas of the HTTP interface share."),)

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[bytes]
