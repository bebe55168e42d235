"""Around the core: what steers, wakes, measures and watches the tasks."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, Identity, Index, SmallInteger, false, text, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from taskbell.shared.rows.declaration import ROOMY, Row, now, table

__all__ = ["AuditLog", "Bell", "Duty", "Queue", "Schedule", "Worker"]


class Queue(Row):
    """What an operator decided about a queue, and below it what was last measured."""

    __tablename__ = "queue"
    __table_args__ = (
        CheckConstraint("octet_length(name) BETWEEN 1 AND 200", name="queue_name"),
        CheckConstraint("isfinite(paused_until)", name="queue_paused_until"),
        CheckConstraint("max_depth >= 0 AND max_running >= 0", name="queue_limits"),
        CheckConstraint(
            "rate_limit > 0 AND rate_limit < 'Infinity' AND rate_burst >= 1", name="queue_rate"
        ),
        CheckConstraint("on_dead IN ('continue','hold')", name="queue_on_dead"),
        CheckConstraint("depth >= 0 AND oldest_age >= 0 AND settled >= 0", name="queue_measured"),
        Index("queue_paused", "name", postgresql_where=text("paused OR paused_until IS NOT NULL")),
        table(
            "What an operator decided about a queue, and what was last measured; "
            "a queue without a row is unlimited.",
            ROOMY,
        ),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    paused: Mapped[bool] = mapped_column(
        server_default=false(),
        comment="Nothing of this queue is claimed until someone resumes it.",
    )
    paused_until: Mapped[datetime | None] = mapped_column(
        comment="Nothing of this queue is claimed before this instant."
    )
    max_depth: Mapped[int | None] = mapped_column(
        BigInteger,
        comment="Admission refuses new tasks while depth is this large; none means no limit.",
    )
    max_running: Mapped[int | None] = mapped_column(
        comment="How many leases of this queue may live at once; none means no limit."
    )
    rate_limit: Mapped[float | None] = mapped_column(
        comment="Claims per second on average; none means no limit."
    )
    rate_burst: Mapped[int | None] = mapped_column(
        comment="Claims that may be made at once after a quiet time."
    )
    on_dead: Mapped[str] = mapped_column(
        server_default="continue",
        comment="Whether a partition goes on after one of its tasks failed, "
        "or holds until its dead letter is redriven or discarded.",
    )
    depth: Mapped[int | None] = mapped_column(
        BigInteger, comment="Measured number of entries that are due."
    )
    oldest_age: Mapped[float | None] = mapped_column(
        comment="Measured age of the oldest due entry, in seconds."
    )
    drain_rate: Mapped[float | None] = mapped_column(
        comment="Measured settlements per second; Retry-After is computed from it."
    )
    settled: Mapped[int] = mapped_column(
        BigInteger,
        server_default=text("0"),
        comment="Running total of settlements, from which drain_rate is measured.",
    )
    measured_settled: Mapped[int] = mapped_column(
        BigInteger, server_default=text("0"), comment="What settled was at measured_at."
    )
    measured_at: Mapped[datetime | None] = mapped_column(
        comment="When the measured columns were last written."
    )


class Bell(Row):
    """One listener of the doorbell."""

    __tablename__ = "bell"
    __table_args__ = (
        table(
            "One row per listener of the doorbell: "
            "a statement rings only if one listens and none is awake.",
            ROOMY,
        ),
    )

    listener_id: Mapped[str] = mapped_column(primary_key=True)
    awake_until: Mapped[datetime] = mapped_column(
        comment="A promise: I make passes until then, nobody need ring."
    )
    listen_until: Mapped[datetime] = mapped_column(
        comment="After this instant the listener counts as gone."
    )


class Schedule(Row):
    """Tasks that come round by the clock."""

    __tablename__ = "schedule"
    __table_args__ = (
        CheckConstraint("octet_length(name) BETWEEN 1 AND 200", name="schedule_name"),
        CheckConstraint("octet_length(type) BETWEEN 1 AND 200", name="schedule_type"),
        CheckConstraint("octet_length(queue) BETWEEN 1 AND 200", name="schedule_queue"),
        CheckConstraint("octet_length(owner_id) <= 200", name="schedule_owner_id"),
        CheckConstraint(
            "octet_length(partition_key) BETWEEN 1 AND 512", name="schedule_partition_key"
        ),
        CheckConstraint("priority BETWEEN 0 AND 9", name="schedule_priority"),
        CheckConstraint("max_attempts BETWEEN 1 AND 1000", name="schedule_attempts"),
        CheckConstraint(
            "catch_up IN ('skip','one','all') AND catch_up_limit >= 1", name="schedule_catch_up"
        ),
        CheckConstraint("last_slot < next_slot", name="schedule_slots"),
        table("Tasks that come round by the clock; each slot is enqueued at most once.", ROOMY),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    queue: Mapped[str]
    owner_id: Mapped[str] = mapped_column(server_default="")
    cron: Mapped[str] = mapped_column(comment="When, in cron notation, read in time_zone.")
    time_zone: Mapped[str] = mapped_column(
        server_default="UTC", comment="IANA name of the zone whose clock on the wall counts."
    )
    catch_up: Mapped[str] = mapped_column(
        server_default="one",
        comment="What becomes of slots that were missed: "
        "none is enqueued, the latest one, or all up to catch_up_limit.",
    )
    catch_up_limit: Mapped[int] = mapped_column(
        server_default=text("100"),
        comment="How many missed slots are enqueued at most when catch_up is all.",
    )
    partition_key: Mapped[str | None]
    priority: Mapped[int] = mapped_column(SmallInteger, server_default=text("5"))
    max_attempts: Mapped[int] = mapped_column(SmallInteger, server_default=text("5"))
    enabled: Mapped[bool] = mapped_column(server_default=true())
    created_at: Mapped[datetime] = mapped_column(server_default=now())
    last_slot: Mapped[datetime | None] = mapped_column(
        comment="The latest slot that was dealt with."
    )
    next_slot: Mapped[datetime | None] = mapped_column(
        comment="The earliest slot not yet dealt with; none until the schedule was first looked at."
    )
    payload: Mapped[object] = mapped_column(
        JSONB, server_default="{}", comment="The payload of every task of this schedule."
    )


class Worker(Row):
    """One process that said it is there; nothing is decided from it."""

    __tablename__ = "worker"
    __table_args__ = (
        table(
            "The processes that said they are there: information only, nothing is decided from it.",
            ROOMY,
        ),
    )

    worker_id: Mapped[str] = mapped_column(
        primary_key=True, comment="The name in the leases, with its random boot id."
    )
    role: Mapped[str] = mapped_column(comment="relay, consumer or api.")
    host: Mapped[str]
    pid: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(server_default=now())
    seen_at: Mapped[datetime] = mapped_column(
        server_default=now(), comment="When the process last wrote this row."
    )
    running: Mapped[int] = mapped_column(
        server_default=text("0"), comment="How many of its slots ran a handler at seen_at."
    )
    slots: Mapped[int] = mapped_column(
        server_default=text("0"), comment="How many handlers the process runs at once."
    )
    queues: Mapped[list[str]] = mapped_column(server_default="{}")


class AuditLog(Row):
    """What an operator did."""

    __tablename__ = "audit_log"
    __table_args__ = (table("What operators did, by whom and to what; only ever appended to."),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=now())
    actor: Mapped[str] = mapped_column(
        comment="The prefix of an API key, the subject of a token, or a user at a command line."
    )
    action: Mapped[str] = mapped_column(
        comment="The verb: cancel, redrive, discard, pause and so on."
    )
    subject: Mapped[str] = mapped_column(comment="The task, queue, schedule or key it was done to.")
    detail: Mapped[object] = mapped_column(
        JSONB, server_default="{}", comment="The arguments, without payloads or secrets."
    )


class Duty(Row):
    """When one maintenance duty last ran."""

    __tablename__ = "duty"
    __table_args__ = (
        table("When each maintenance duty last ran, so that a whole fleet shares one pace.", ROOMY),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    ran_at: Mapped[datetime]
