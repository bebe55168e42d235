"""The data keys of single owners, as whoever seals and opens needs them, and as they come and go."""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.operation import log

OF_OWNERS = Statement("""
SELECT k.owner_id, k.key_id, k.wrapped FROM taskbell.data_key k
WHERE k.owner_id = ANY (CAST(:owner_ids AS text[])) AND k.erased_at IS NULL
""")
"""The keys in use; an owner without one is sealed for by the ring."""

ALL_OF_OWNER = Statement("SELECT k.key_id FROM taskbell.data_key k WHERE k.owner_id = :owner_id")
"""The one in use and those that were erased."""

BY_IDS = Statement("""
SELECT k.key_id, k.owner_id, k.wrapped FROM taskbell.data_key k
WHERE k.key_id = ANY (CAST(:key_ids AS text[]))
""")
"""Keys by their names; ``wrapped`` is null for one that was erased."""

_NAMED = "SELECT owner_id AS subject, jsonb_build_object('key_id', key_id) AS detail"

CREATE = Statement(f"""
WITH created AS (
    INSERT INTO taskbell.data_key (key_id, owner_id, wrapped)
    VALUES (CAST(:key_id AS text), CAST(:owner_id AS text), CAST(:wrapped AS bytea))
    ON CONFLICT (owner_id) WHERE erased_at IS NULL DO NOTHING
    RETURNING key_id, owner_id
), {log("create-owner-key", f"{_NAMED} FROM created")}
SELECT key_id FROM created
""")
"""Answers no row if the owner has a key already."""

ERASE = Statement(f"""
WITH erased AS (
    UPDATE taskbell.data_key k SET wrapped = NULL, erased_at = clock_timestamp()
    WHERE k.owner_id = CAST(:owner_id AS text) AND k.erased_at IS NULL
    RETURNING k.key_id, k.owner_id
), forgotten AS (
    UPDATE taskbell.idempotency i SET request_hash = decode(repeat('00', 16), 'hex')
    WHERE i.owner_id = ANY (ARRAY(SELECT owner_id FROM erased))
), {log("erase-owner-key", f"{_NAMED} FROM erased")}
SELECT key_id FROM erased
""")
"""Answers no row if the owner has no key. The row stays and says when.

A hash of the request would confirm what somebody guesses of its payload: it goes too, and the
owner's idempotency keys then conflict with whatever is asked for again.
"""

WRAPPED = Statement("""
SELECT k.key_id, k.owner_id, k.wrapped FROM taskbell.data_key k
WHERE k.wrapped IS NOT NULL AND k.key_id > CAST(:after AS text)
  AND (CAST(:owner_id AS text) IS NULL OR k.owner_id = :owner_id)
ORDER BY k.key_id LIMIT :limit
""")

REWRAP = Statement("""
UPDATE taskbell.data_key k SET wrapped = CAST(:new AS bytea)
WHERE k.key_id = :key_id AND k.wrapped = CAST(:old AS bytea)
RETURNING k.key_id
""")
"""Answers no row if the key was erased meanwhile."""
