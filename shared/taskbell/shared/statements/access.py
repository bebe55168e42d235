"""Keys of the HTTP interface: signing in, and what operators do with them.

None of these statements ever sees a key, only its SHA-256.
"""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.operation import log

_GOOD = "k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())"

SIGN_IN = Statement(f"""
SELECT k.prefix, k.owner_id, k.scopes,
       CAST(extract(epoch FROM k.expires_at - clock_timestamp()) AS float8) AS seconds_left,
       NOT CAST(current_setting('transaction_read_only') AS boolean)
           AND COALESCE(k.last_used_at < clock_timestamp() - make_interval(secs => :pause), true)
           AS to_touch
FROM taskbell.api_key k WHERE k.key_hash = :key_hash AND {_GOOD}
""")
"""One row for a key that is good now; wrong, expired and revoked ones are the same to it.

``to_touch``: whether TOUCH has something to write, and may.
"""

TOUCH = Statement("""
WITH free AS MATERIALIZED (
    SELECT k.prefix FROM taskbell.api_key k
    WHERE k.prefix = ANY (CAST(:prefixes AS text[])) ORDER BY k.prefix FOR NO KEY UPDATE SKIP LOCKED
), touched AS (
    UPDATE taskbell.api_key k SET last_used_at = clock_timestamp()
    WHERE k.prefix = ANY (ARRAY(SELECT prefix FROM free)) RETURNING k.prefix
)
SELECT count(*) AS touched, set_config('synchronous_commit', 'off', true) FROM touched
""")
"""Notes that these were used just now; a row that somebody else holds is left for the next time."""

_CREATED = """SELECT prefix AS subject,
           jsonb_build_object('owner', owner_id, 'scopes', scopes, 'expires_at', expires_at) AS detail
    FROM created"""

CREATE = Statement(f"""
WITH created AS (
    INSERT INTO taskbell.api_key (prefix, key_hash, owner_id, label, scopes, expires_at)
    VALUES (:prefix, :key_hash, :owner_id, :label, CAST(:scopes AS text[]),
            clock_timestamp() + make_interval(secs => CAST(:seconds AS float8)))
    RETURNING prefix, owner_id, scopes, expires_at
), limited AS (
    INSERT INTO taskbell.rate_limit (scope, name, rate, burst, tokens)
    SELECT 'key', c.prefix, CAST(:rate AS float8), CAST(:burst AS float8), CAST(:burst AS float8)
    FROM created c WHERE CAST(:rate AS float8) IS NOT NULL
), {log("key create", _CREATED)}
SELECT prefix, expires_at FROM created
""")
"""Without ``seconds`` it never expires, without ``rate`` it is not limited."""

_ROTATED = """SELECT o.prefix AS subject,
           jsonb_build_object('successor', c.prefix, 'expires_at', o.expires_at) AS detail
    FROM old o, created c"""

ROTATE = Statement(f"""
WITH chosen AS MATERIALIZED (
    SELECT k.prefix, k.owner_id, k.label, k.scopes FROM taskbell.api_key k
    WHERE k.prefix = :old AND {_GOOD} AND (k.expires_at IS NULL OR CAST(:seconds AS float8) IS NOT NULL)
    FOR NO KEY UPDATE
), created AS (
    INSERT INTO taskbell.api_key (prefix, key_hash, owner_id, label, scopes, expires_at)
    SELECT CAST(:prefix AS text), CAST(:key_hash AS bytea), c.owner_id, c.label, c.scopes,
           clock_timestamp() + make_interval(secs => CAST(:seconds AS float8))
    FROM chosen c RETURNING prefix, expires_at
), limited AS (
    INSERT INTO taskbell.rate_limit (scope, name, rate, burst, tokens)
    SELECT 'key', c.prefix, r.rate, r.burst, r.burst
    FROM created c, taskbell.rate_limit r WHERE r.scope = 'key' AND r.name = :old
), old AS (
    UPDATE taskbell.api_key k
    SET expires_at = LEAST(k.expires_at, clock_timestamp() + make_interval(secs => :overlap))
    WHERE k.prefix IN (SELECT prefix FROM chosen) RETURNING k.prefix, k.expires_at
), {log("key rotate", _ROTATED)}
SELECT c.prefix, c.expires_at, o.expires_at AS old_expires_at FROM created c, old o
""")
"""A new key with the rights and the rate of the old one, which ends after the overlap at the latest.

Answers no row if the old one is unknown or has ended, or if it expires and the new one would not: a
key that was rotated before must not become one for ever by being rotated again.
"""

_REVOKED = "SELECT prefix AS subject, jsonb_build_object('owner', owner_id) AS detail FROM revoked"

REVOKE = Statement(f"""
WITH revoked AS (
    UPDATE taskbell.api_key k SET revoked_at = clock_timestamp()
    WHERE k.prefix = ANY (CAST(:prefixes AS text[])) AND k.revoked_at IS NULL
    RETURNING k.prefix, k.owner_id
), {log("key revoke", _REVOKED)}
SELECT prefix FROM revoked
""")

LIST = Statement(f"""
SELECT k.prefix, k.owner_id, k.label, k.scopes,
       CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN {_GOOD} THEN 'good'
            ELSE 'expired' END AS state,
       k.created_at, k.expires_at, k.last_used_at, k.revoked_at, r.rate, r.burst
FROM taskbell.api_key k LEFT JOIN taskbell.rate_limit r ON r.scope = 'key' AND r.name = k.prefix
WHERE (CAST(:owner_id AS text) IS NULL OR k.owner_id = CAST(:owner_id AS text))
  AND (CAST(:prefix AS text) IS NULL OR k.prefix = CAST(:prefix AS text))
ORDER BY k.created_at DESC, k.prefix LIMIT :limit
""")

SECRET = Statement("SELECT s.value FROM taskbell.secret s WHERE s.name = :name")
"""A random value that all replicas share."""
