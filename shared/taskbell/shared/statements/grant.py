"""Least privilege: what each role may do in the database, and the statements that grant just that.

A role's statements need every privilege below (tests run each role under its own user), and it gets
no other: not the content of tasks where only their state matters, nor a column nobody there writes.
``FOR UPDATE`` asks for UPDATE of some column; where nothing is updated it is one that says little.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

Privileges = Mapping[str, tuple[str, ...]]
"""By table (or sequence)."""

CONTENT: Final = ("payload", "payload_sealed", "result", "result_sealed")
"""The columns of ``task`` that hold what users sent and handlers returned."""

STATE: Final = (
    "id", "owner_id", "type", "queue", "partition_key", "partition_seq", "correlation_id",
    "traceparent", "created_at", "scheduled_at", "max_attempts", "priority", "status",
    "attempt_count", "refunded", "started_at", "finished_at", "error_message", "idempotency_hash",
    "payload_location", "result_location",
)  # fmt: skip
"""All others."""

_BORN: Final = (
    "id, owner_id, type, queue, partition_key, partition_seq, correlation_id, traceparent,"
    " scheduled_at, max_attempts, priority, idempotency_hash, payload, payload_sealed,"
    " payload_location"
)
_ENDED: Final = (
    "status, refunded, finished_at, error_message, result, result_sealed, result_location"
)

_BIRTH: Final[Privileges] = {
    "bell": ("SELECT",),
    "data_key": ("SELECT",),
    "idempotency": ("SELECT", "INSERT", "UPDATE (task_id)"),
    "outbox": ("INSERT",),
    "partition_seq": ("USAGE",),
    "queue": ("SELECT",),
    "rate_limit": ("SELECT", "UPDATE (tokens, refilled_at)"),
    "task": (
        "SELECT (id, queue, priority, scheduled_at, partition_key, partition_seq)",
        f"INSERT ({_BORN})",
    ),
}

# Relays run it, and consumers where no relay does.
_MAINTENANCE: Final[Privileges] = {
    "bell": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    # What an upsert writes from EXCLUDED it must be allowed to read.
    "dead_letter": (
        "SELECT (task_id, failed_at, attempt_count, error_class, fingerprint, last_error, worker_id)",
        "INSERT",
        "UPDATE",
    ),
    "duty": ("SELECT", "INSERT", "UPDATE (ran_at)"),
    "effect": ("SELECT", "UPDATE (created_at)", "DELETE"),
    "failure": ("SELECT (task_id, attempt)", "INSERT", "DELETE"),
    "held_partition": ("SELECT", "INSERT"),
    "idempotency": ("SELECT", "DELETE"),
    "lease": ("SELECT", "UPDATE (progress)", "DELETE"),
    "outbox": ("SELECT", "INSERT", "UPDATE (announced_at, parked, publish_at)"),
    "queue": (
        "SELECT",
        "INSERT",
        "UPDATE (depth, oldest_age, drain_rate, settled, measured_settled, measured_at)",
        "DELETE",
    ),
    "schema_version": ("SELECT",),
    "task": (f"SELECT ({', '.join(STATE)})", f"UPDATE ({_ENDED})", "DELETE"),
}

_RUNNING: Final[Privileges] = {
    "effect": ("INSERT",),
    "failure": ("SELECT (outcome, worker_id)",),
    "lease": ("INSERT", "UPDATE (expires_at)"),
    "outbox": ("DELETE",),
    "queue": ("UPDATE (paused_until)",),
    "task": (
        "SELECT (payload, payload_sealed)",
        "UPDATE (attempt_count, started_at)",
    ),
    "worker": ("SELECT", "INSERT", "UPDATE (seen_at, running)", "DELETE"),
}

_SERVING: Final[Privileges] = {
    "api_key": ("SELECT", "UPDATE (last_used_at)"),
    "audit_log": ("INSERT (actor, action, subject, detail)",),
    "dead_letter": ("SELECT", "UPDATE (failed_at)", "DELETE"),
    "failure": ("SELECT",),
    "held_partition": ("SELECT", "INSERT", "UPDATE (held_at)", "DELETE"),
    "lease": ("SELECT", "UPDATE (cancel_requested)"),
    "outbox": ("SELECT", "UPDATE (parked, publish_at)", "DELETE"),
    "queue": ("INSERT (name, paused, paused_until)", "UPDATE (paused, paused_until)"),
    "schema_version": ("SELECT",),
    "secret": ("SELECT",),
    "task": ("SELECT", "UPDATE (status, refunded, finished_at)"),
    "worker": ("SELECT",),
}


def _together(*parts: Privileges) -> Privileges:
    tables = sorted({table for part in parts for table in part})
    return {
        table: tuple(each for part in parts for each in part.get(table, ())) for table in tables
    }


ROLES: Final[Mapping[str, Privileges]] = {
    "producer": _BIRTH,
    "relay": _MAINTENANCE,
    "consumer": _together(_BIRTH, _MAINTENANCE, _RUNNING),
    "api": _together(_BIRTH, _SERVING),
}
"""What each role is granted. The migrator owns the schema instead."""

MIGRATOR: Final = "migrator"

_SEQUENCES: Final = frozenset({"partition_seq"})
# Vacuumed by whoever runs maintenance: a privilege of its own since Postgres 17.
_HOT: Final = "taskbell.outbox, taskbell.lease"
# So that no name needs quotes, and none is cut.
_PREFIX: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def names(prefix: str) -> dict[str, str]:
    """Return what each role is called in the database; raises ``ValueError``."""
    if not _PREFIX.fullmatch(prefix):
        raise ValueError("a prefix is at most 40 of a-z, 0-9 and _, and begins with no digit")
    return {role: f"{prefix}_{role}" for role in (*ROLES, MIGRATOR)}


def script(prefix: str) -> list[str]:
    """Return the statements, for one transaction; run again they change nothing.

    The first ones make what roles are missing; the others need the owner of the schema and its
    tables. What was granted before and is not any more is revoked.
    """
    called = names(prefix)
    lines = ["SELECT pg_advisory_xact_lock(hashtextextended('taskbell.roles', 0))"]
    lines += [_make(name) for name in called.values()]
    lines.append(_own(called[MIGRATOR]))
    for role, privileges in ROLES.items():
        lines += _grants(called[role], privileges)
    for role in ("relay", "consumer"):
        lines.append(_maintain(called[role]))
    return lines


def _make(name: str) -> str:
    # Roles belong to the whole server: another database may be making them at this moment.
    return f"""DO $$
BEGIN
    IF to_regrole('{name}') IS NULL THEN
        CREATE ROLE {name} NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$"""


def _own(migrator: str) -> str:
    """Hand the schema and all that is in it to the migrator, whoever made it."""
    return f"""DO $$
DECLARE
    found record;
BEGIN
    ALTER SCHEMA taskbell OWNER TO {migrator};
    FOR found IN
        SELECT c.relname, c.relkind FROM pg_class c
        WHERE c.relnamespace = 'taskbell'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
          AND NOT EXISTS (SELECT FROM pg_depend d
                          WHERE d.objid = c.oid AND c.relkind = 'S' AND d.deptype IN ('a', 'i'))
    LOOP
        EXECUTE format('ALTER %s taskbell.%I OWNER TO {migrator}',
                       CASE found.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                                          WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, found.relname);
    END LOOP;
END
$$"""


def _grants(name: str, privileges: Privileges) -> Iterator[str]:
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA taskbell FROM {name}"
    yield f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA taskbell FROM {name}"
    yield f"GRANT USAGE ON SCHEMA taskbell TO {name}"
    for relation, granted in privileges.items():
        kind = "SEQUENCE" if relation in _SEQUENCES else "TABLE"
        yield f"GRANT {', '.join(granted)} ON {kind} taskbell.{relation} TO {name}"


def _maintain(name: str) -> str:
    return f"""DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 170000 THEN
        EXECUTE 'GRANT MAINTAIN ON {_HOT} TO {name}';
    END IF;
END
$$"""
