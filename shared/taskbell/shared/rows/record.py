"""The record: what a task is, what became of it, and what may be asked about it later."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Index, SmallInteger, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from taskbell.shared.rows.declaration import Row, now, table

__all__ = ["DeadLetter", "Effect", "Failure", "Idempotency", "Task"]


class Task(Row):
    """One unit of work; the column order keeps the WAL small, see the first revision."""

    __tablename__ = "task"
    __table_args__ = (
        CheckConstraint(
            "status IN ('PENDING','IN_PROGRESS','RETRYING','COMPLETED','FAILED','CANCELLED')",
            name="task_status",
        ),
        CheckConstraint(
            "(finished_at IS NOT NULL) = (status IN ('COMPLETED','FAILED','CANCELLED'))",
            name="task_finished",
        ),
        CheckConstraint("priority BETWEEN 0 AND 9", name="task_priority"),
        CheckConstraint(
            "max_attempts BETWEEN 1 AND 1000 AND refunded BETWEEN 0 AND attempt_count",
            name="task_attempts",
        ),
        CheckConstraint(
            "num_nonnulls(payload, payload_sealed, payload_location) = 1", name="task_one_payload"
        ),
        CheckConstraint("(partition_key IS NULL) = (partition_seq IS NULL)", name="task_partition"),
        CheckConstraint("octet_length(type) BETWEEN 1 AND 200", name="task_type"),
        CheckConstraint("octet_length(queue) BETWEEN 1 AND 200", name="task_queue"),
        CheckConstraint("octet_length(owner_id) <= 200", name="task_owner_id"),
        CheckConstraint("octet_length(partition_key) BETWEEN 1 AND 512", name="task_partition_key"),
        CheckConstraint("octet_length(correlation_id) <= 200", name="task_correlation_id"),
        Index("task_owner", "owner_id", "id", postgresql_where=text("owner_id <> ''")),
        Index(
            "task_correlation",
            "correlation_id",
            "id",
            postgresql_where=text("correlation_id IS NOT NULL"),
        ),
        Index(
            "task_owner_correlation",
            # As one value: a scan that ends where a name ends looks at the first column alone.
            text("(ARRAY[owner_id, correlation_id])"),
            "id",
            postgresql_where=text("owner_id <> '' AND correlation_id IS NOT NULL"),
        ),
        table(
            "The record of every task: one unit of work, one row, from enqueue to prune.",
            {
                "fillfactor": 50,
                "autovacuum_vacuum_scale_factor": 0.02,
                "autovacuum_vacuum_threshold": 10000,
                "autovacuum_vacuum_insert_scale_factor": 0.05,
                "autovacuum_vacuum_insert_threshold": 50000,
                "autovacuum_analyze_scale_factor": 0.02,
                "autovacuum_analyze_threshold": 10000,
            },
        ),
    )

    id: Mapped[UUID] = mapped_column(
        primary_key=True, comment="UUIDv7 minted by the producer, so that id order is time order."
    )
    owner_id: Mapped[str] = mapped_column(
        server_default="", comment="Whose task it is: the isolation boundary."
    )
    type: Mapped[str] = mapped_column(comment="The stable name that picks the handler.")
    queue: Mapped[str] = mapped_column(comment="The named lane the task waits in.")
    partition_key: Mapped[str | None] = mapped_column(
        comment="Tasks of a queue that share it run one at a time, in creation order."
    )
    partition_seq: Mapped[int | None] = mapped_column(
        BigInteger,
        comment="The place in the line of its partition, drawn when the task was enqueued.",
    )
    correlation_id: Mapped[str | None] = mapped_column(
        comment="The caller's own name for what this task belongs to."
    )
    traceparent: Mapped[str | None] = mapped_column(
        comment="W3C trace context of the enqueue, to link the spans of send and process."
    )
    created_at: Mapped[datetime] = mapped_column(server_default=now())
    scheduled_at: Mapped[datetime] = mapped_column(
        server_default=now(),
        comment="Not before this instant; kept for the record, outbox.publish_at decides.",
    )
    max_attempts: Mapped[int] = mapped_column(
        SmallInteger,
        server_default=text("5"),
        comment="How many tries the task has before it fails.",
    )
    priority: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("5"), comment="0 to 9, 9 is served first."
    )
    status: Mapped[str] = mapped_column(
        server_default="PENDING",
        comment="The user's word for where the task is; no index may name it, "
        "or no claim is HOT any more.",
    )
    attempt_count: Mapped[int] = mapped_column(
        server_default=text("0"),
        comment="Number of claims so far; never decreases, part of the fence.",
    )
    refunded: Mapped[int] = mapped_column(
        server_default=text("0"),
        comment="What release, RetryLater and redrive gave back; "
        "tries used = attempt_count - refunded.",
    )
    started_at: Mapped[datetime | None] = mapped_column(
        comment="When the first attempt was claimed."
    )
    finished_at: Mapped[datetime | None] = mapped_column(
        comment="When the task reached a final status; set exactly then."
    )
    error_message: Mapped[str | None] = mapped_column(
        comment="The error of the latest failed attempt; none once the task is completed."
    )
    result: Mapped[object | None] = mapped_column(
        JSONB(none_as_null=True),
        comment="What the handler returned, when it is kept in the clear and in the row.",
    )
    result_sealed: Mapped[bytes | None] = mapped_column(
        comment="What the handler returned, encrypted."
    )
    result_location: Mapped[str | None] = mapped_column(
        comment="Where in the object storage the result is."
    )
    idempotency_hash: Mapped[bytes | None] = mapped_column(
        comment="The hash of the idempotency key, to find its row when the task is pruned."
    )
    payload_location: Mapped[str | None] = mapped_column(
        comment="Where in the object storage the payload is."
    )
    payload_sealed: Mapped[bytes | None] = mapped_column(comment="The payload, encrypted.")
    payload: Mapped[object | None] = mapped_column(
        JSONB(none_as_null=True),
        comment="The payload, when it is kept in the clear and in the row; "
        "big and never changed, hence last.",
    )


class Idempotency(Row):
    """The same (owner, key) gives the same task."""

    __tablename__ = "idempotency"
    __table_args__ = (
        table("The same (owner, key) gives the same task; lives exactly as long as its task."),
    )

    owner_id: Mapped[str] = mapped_column(primary_key=True)
    key_hash: Mapped[bytes] = mapped_column(
        primary_key=True,
        comment="Hash of the idempotency key, so that a key of any length fits the index.",
    )
    task_id: Mapped[UUID]
    request_hash: Mapped[bytes] = mapped_column(
        comment="Hash of what the caller asked for, to refuse the same key with another request."
    )


class Effect(Row):
    """One dedup key, recorded in the same transaction as its effect."""

    __tablename__ = "effect"
    __table_args__ = (
        CheckConstraint("octet_length(scope) BETWEEN 1 AND 200", name="effect_scope"),
        CheckConstraint("octet_length(dedup_key) BETWEEN 1 AND 1024", name="effect_dedup_key"),
        Index("effect_age", "created_at", postgresql_using="brin"),
        table(
            "Dedup keys, each recorded in the same transaction as its effect; "
            "may stand alone in another database."
        ),
    )

    scope: Mapped[str] = mapped_column(
        primary_key=True, comment="What the key is unique within, the task type by default."
    )
    dedup_key: Mapped[str] = mapped_column(
        primary_key=True,
        comment="A key seen before ends the handler as completed, with no second effect.",
    )
    task_id: Mapped[UUID]
    created_at: Mapped[datetime] = mapped_column(server_default=now())


class DeadLetter(Row):
    """A FAILED task's diagnosis."""

    __tablename__ = "dead_letter"
    __table_args__ = (
        Index("dead_letter_owner", "owner_id", "failed_at", "task_id"),
        Index("dead_letter_newest", "failed_at", "task_id"),
        Index("dead_letter_cause", "fingerprint", "failed_at", "task_id"),
        table("The diagnosis of every FAILED task, until it is redriven or discarded."),
    )

    task_id: Mapped[UUID] = mapped_column(primary_key=True)
    failed_at: Mapped[datetime]
    attempt_count: Mapped[int]
    owner_id: Mapped[str]
    queue: Mapped[str]
    type: Mapped[str]
    partition_key: Mapped[str | None]
    error_class: Mapped[str | None] = mapped_column(
        comment="The class of the last error, to redrive by cause."
    )
    fingerprint: Mapped[str | None] = mapped_column(
        comment="Equal for errors with the same cause, to group dead letters."
    )
    last_error: Mapped[str | None]
    worker_id: Mapped[str | None] = mapped_column(comment="Who held the last attempt.")


class Failure(Row):
    """One failed attempt."""

    __tablename__ = "failure"
    __table_args__ = (table("One row per failed attempt; successes write none."),)

    task_id: Mapped[UUID] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    failed_at: Mapped[datetime] = mapped_column(server_default=now())
    outcome: Mapped[str] = mapped_column(
        comment="retry and fail come from the handler, lost from the reaper."
    )
    worker_id: Mapped[str | None]
    error_class: Mapped[str | None]
    error: Mapped[str | None]
    traceback: Mapped[str | None] = mapped_column(comment="Bounded by the one who writes it.")
