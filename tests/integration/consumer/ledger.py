"""A business table for effects, and a gate that holds a handler where a test wants it."""

from typing import Any

from sqlalchemy import text

from support.workers import rows

SCHEMA = "CREATE TABLE public.ledger (line bigserial PRIMARY KEY, entry text NOT NULL)"
WRITE = text("INSERT INTO public.ledger (entry) VALUES (:entry)")
WRITE_PLAIN = "INSERT INTO public.ledger (entry) VALUES (%s)"

# What a reap and the claim of another worker leave behind.
TAKE_AWAY = """
WITH t AS (UPDATE taskbell.task SET attempt_count = attempt_count + 1 WHERE id = %s)
UPDATE taskbell.lease SET worker_id = 'other', attempt = attempt + 1,
       expires_at = clock_timestamp() + interval '1 minute' WHERE task_id = %s
"""


def make_ledger(url: str) -> None:
    rows(url, SCHEMA)


def entries(url: str) -> list[Any]:
    """What was written, in order."""
    return [row.entry for row in rows(url, "SELECT entry FROM public.ledger ORDER BY line")]


def take_away(url: str, task_id: object) -> None:
    rows(url, TAKE_AWAY, task_id, task_id)
