"""The two small hot tables, one of which has a live task's only row, and the held partitions."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, Index, Sequence, SmallInteger, false, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from taskbell.shared.rows.declaration import Row, now, table

__all__ = ["PARTITION_SEQ", "HeldPartition", "Lease", "Outbox"]

PARTITION_SEQ = Sequence(
    "partition_seq", metadata=Row.metadata, schema=Row.metadata.schema, data_type=BigInteger
)


class Outbox(Row):
    """One entry: someone must be woken for this task, not before `publish_at`."""

    __tablename__ = "outbox"
    __table_args__ = (
        CheckConstraint("NOT parked OR partition_key IS NOT NULL", name="outbox_parked"),
        Index(
            "outbox_due",
            "queue",
            text("priority DESC"),
            "publish_at",
            postgresql_where=text("NOT parked"),
        ),
        Index(
            "outbox_line",
            "queue",
            "partition_key",
            "partition_seq",
            postgresql_where=text("parked"),
        ),
        Index("outbox_line_new", "partition_seq", postgresql_where=text("parked")),
        Index(
            "outbox_head",
            "queue",
            "partition_key",
            postgresql_where=text("partition_key IS NOT NULL AND NOT parked"),
        ),
        table(
            "Tasks that wait: someone must be woken for each, not before publish_at; "
            "an entry lives until the claim.",
            {
                "fillfactor": 50,
                "autovacuum_vacuum_scale_factor": 0,
                "autovacuum_vacuum_threshold": 2000,
                "autovacuum_vacuum_insert_scale_factor": 0,
                "autovacuum_vacuum_insert_threshold": 50000,
                "autovacuum_vacuum_cost_delay": 0,
                "autovacuum_analyze_scale_factor": 0,
                "autovacuum_analyze_threshold": 20000,
            },
        ),
    )

    task_id: Mapped[UUID] = mapped_column(primary_key=True)
    publish_at: Mapped[datetime] = mapped_column(comment="When the task is due.")
    announced_at: Mapped[datetime | None] = mapped_column(
        comment="The mark: when the entry was last announced; "
        "a mark expires, for an announcement may be lost."
    )
    partition_seq: Mapped[int | None] = mapped_column(
        BigInteger, comment="The place in the line of its partition."
    )
    priority: Mapped[int] = mapped_column(SmallInteger)
    parked: Mapped[bool] = mapped_column(
        server_default=false(),
        comment="Waits behind the head of its partition; promotion makes it the head.",
    )
    queue: Mapped[str]
    partition_key: Mapped[str | None]


class Lease(Row):
    """The right to run one attempt until `expires_at`."""

    __tablename__ = "lease"
    __table_args__ = (
        Index(
            "lease_partition",
            "queue",
            "partition_key",
            unique=True,
            postgresql_where=text("partition_key IS NOT NULL"),
        ),
        Index("lease_cancel", "worker_id", postgresql_where=text("cancel_requested")),
        table(
            "Tasks that run: each row is the right to run one attempt until expires_at.",
            {
                "fillfactor": 50,
                "autovacuum_vacuum_scale_factor": 0,
                "autovacuum_vacuum_threshold": 1000,
                "autovacuum_vacuum_cost_delay": 0,
                "autovacuum_analyze_scale_factor": 0,
                "autovacuum_analyze_threshold": 20000,
            },
        ),
    )

    task_id: Mapped[UUID] = mapped_column(primary_key=True)
    expires_at: Mapped[datetime] = mapped_column(
        comment="From then on the reaper may take the task back; heartbeats move it. "
        "No index, so that they stay HOT."
    )
    attempt: Mapped[int] = mapped_column(
        comment="With worker_id the fence: every write after the claim names both."
    )
    cancel_requested: Mapped[bool] = mapped_column(
        server_default=false(),
        comment="Someone asked to cancel; the holder looks for it twice a second.",
    )
    progress: Mapped[object | None] = mapped_column(
        JSONB(none_as_null=True),
        comment="What the handler last said about how far it is; "
        "small, replaced as a whole, gone with the lease.",
    )
    queue: Mapped[str]
    worker_id: Mapped[str] = mapped_column(comment="The holder, with its random boot id.")
    partition_key: Mapped[str | None] = mapped_column(
        comment="Unique within the queue: one task of a partition runs at a time."
    )


class HeldPartition(Row):
    """A partition that goes on only once somebody dealt with the head it lost."""

    __tablename__ = "held_partition"
    __table_args__ = (
        Index("held_partition_head", "task_id", unique=True),
        table(
            "Partitions of queues on hold whose head failed or was cancelled: "
            "nothing of them is promoted until the hold is lifted."
        ),
    )

    queue: Mapped[str] = mapped_column(primary_key=True)
    partition_key: Mapped[str] = mapped_column(primary_key=True)
    task_id: Mapped[UUID] = mapped_column(
        comment="The head that ended so; redriving or discarding it lifts the hold."
    )
    held_at: Mapped[datetime] = mapped_column(server_default=now())
