"""pgbench scripts made from our Statement objects, so that they are the very statements.

A parameter stays a pgbench variable of the same name, which pgbench sends as a parameter of the
prepared statement; those that hold ids or arrays become an expression that makes them.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from benchmarks.handlers import CHARGE, payload
from taskbell.producer.birth import RINGING
from taskbell.shared.limits import LEVELS
from taskbell.shared.statement import Statement
from taskbell.shared.statements import claim, effect, outbox, settlement

SUPPORT: Final = """
CREATE SCHEMA IF NOT EXISTS bench;
CREATE FUNCTION bench.id(client bigint, turn bigint, nth bigint) RETURNS uuid
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CAST(lpad(to_hex(turn), 16, '0') || lpad(to_hex(client), 8, '0')
                || lpad(to_hex(nth), 8, '0') AS uuid) $$;
CREATE FUNCTION bench.ids(client bigint, turn bigint, size bigint) RETURNS uuid[]
    LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(bench.id(client, turn, n)) FROM generate_series(1, size) n $$;
"""
"""Ids that follow time, as UUIDv7 does, and that a later statement of the same turn finds again."""

_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)\b")
_NEXT_TURN: Final = "\\set turn :turn + 1"
_ONE_ID: Final = "bench.id(:client_id, :turn, 1)"


def variables(size: int) -> dict[str, str]:
    """The pgbench variables of all scripts; ``size`` tasks make a batch."""
    return {
        "turn": "0", "size": str(size), "limit": str(size), "batch": str(size), "window": "2000",
        "queue": "bench", "type": "noop", "max_attempts": "5", "priority": "5",
        "payload": json.dumps(payload(1)), "levels": _array(map(str, LEVELS)),
        "floors": _array("-infinity" for _ in LEVELS), "mark_age": "30",
        "connected_at": "-infinity", "worker_id": "consumer-floor", "lease_by_type": "{}",
        "lease": "30", "attempt": "1", "scope": "charge", "idle_ms": "30000",
    }  # fmt: skip


def enqueue_one() -> str:
    """A single enqueue, its own commit."""
    nothing = {"owner_id": _NOBODY, **dict.fromkeys(_OPTIONAL, "NULL")}
    return _script(_NEXT_TURN, _bound(RINGING.one, {"id": _ONE_ID, **nothing}))


def enqueue_many() -> str:
    """A batch enqueued in one statement."""
    return _script(_NEXT_TURN, _births())


def announce_and_claim() -> str:
    """A batch marked, and a batch claimed by its ids; without the claim the window would fill."""
    return _script(_NEXT_TURN, _announcement(), _claim())


def claim_many() -> str:
    """A batch claimed by its ids."""
    return _script(_NEXT_TURN, _claim())


def settle_many() -> str:
    """A batch settled as completed."""
    return _script(_NEXT_TURN, _settlement())


def whole_life() -> str:
    """Enqueue, announce, claim by ids, settle: a batch, four statements, four commits."""
    return _script(_NEXT_TURN, _births(), _announcement(), _claim(), _settlement())


def transactional_effect() -> str:
    """Of a claimed task: dedup key, one business UPDATE and the settlement, in one commit."""
    task_id = "bench.id(:client_id, :turn_of, :nth)"
    return _script(
        _NEXT_TURN,
        "\\set turn_of (:turn - 1) / :size + 1",
        "\\set nth (:turn - 1) % :size + 1",
        "\\set number random(0, 9999)",
        "BEGIN",
        _bound(
            effect.BEGIN_KEYED,
            {"task_id": task_id, "dedup_key": "concat_ws('-', :client_id::int, :turn::int)"},
        ),
        CHARGE.format(number=":number"),
        _bound(
            settlement.SETTLE_COMPLETED, {"task_ids": f"ARRAY[{task_id}]", "attempts": "ARRAY[1]"}
        ),
        "COMMIT",
    )


# pgbench has no empty variables.
_NOBODY: Final = "CAST('' AS text)"
_OPTIONAL: Final = ("partition_key", "correlation_id", "traceparent", "scheduled_at", "delay")
_GIVEN: Final = {
    "type": "text", "queue": "text", "max_attempts": "smallint",
    "priority": "smallint", "payload": "text",
}  # fmt: skip
_TYPES: Final = {"scheduled_at": "timestamptz", "delay": "float8"}


def _births() -> str:
    arrays = {name: _filled(f"CAST(:{name} AS {kind})") for name, kind in _GIVEN.items()}
    empty = {
        name: _filled(f"CAST(NULL AS {_TYPES.get(name, 'text')})")
        for name in _OPTIONAL
        if name != "traceparent"
    }
    ids = {"id": "bench.ids(:client_id, :turn, :size)", "traceparent": "NULL"}
    ids["owner_id"] = _filled(_NOBODY)
    return _bound(RINGING.many, ids | arrays | empty)


def _announcement() -> str:
    return _bound(outbox.ANNOUNCE, {})


def _claim() -> str:
    return _bound(claim.BY_IDS, {"task_ids": "bench.ids(:client_id, :turn, :size)"})


def _settlement() -> str:
    ids = {"task_ids": "bench.ids(:client_id, :turn, :size)", "attempts": _filled("1")}
    return _bound(settlement.SETTLE_COMPLETED, ids)


def _filled(value: str) -> str:
    return f"array_fill({value}, ARRAY[CAST(:size AS integer)])"


def _bound(statement: Statement, expressions: Mapping[str, str]) -> str:
    def replace(found: re.Match[str]) -> str:
        return expressions.get(found[1], found[0])

    return _PARAMETER.sub(replace, statement.sql)


def _script(*steps: str) -> str:
    return "".join(f"{step}\n" if step.startswith("\\") else f"{step.strip()};\n" for step in steps)


def _array(values: Iterable[str]) -> str:
    return "{" + ",".join(values) + "}"
