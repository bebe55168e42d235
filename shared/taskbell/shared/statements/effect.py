"""The effect's begin: who may write, and whether somebody wrote before; its end is a settlement.

The lease is not locked while an effect runs in READ COMMITTED: beats, cancel and the reaper go on,
and the settlement that ends the effect finds out whether the lease is still there. A stricter
isolation would fail at that end as soon as one beat lies in between, so there the lease is locked
at the start.
"""

from taskbell.shared.statement import Statement

_IDLE = "set_config('idle_in_transaction_session_timeout', :idle_ms, true)"

_HOLDER = """holder AS MATERIALIZED (
    SELECT 1 FROM taskbell.lease l
    WHERE l.task_id = CAST(:task_id AS uuid) AND l.attempt = :attempt AND l.worker_id = :worker_id
    {lock}
)"""

_PLAIN = f"""
WITH {_HOLDER}
SELECT CASE WHEN EXISTS (SELECT FROM holder) THEN 'run' ELSE 'lost' END AS answer, {_IDLE}
"""

_KEYED = f"""
WITH {_HOLDER}, mark AS (
    INSERT INTO taskbell.effect (scope, dedup_key, task_id)
    SELECT CAST(:scope AS text), CAST(:dedup_key AS text), CAST(:task_id AS uuid)
    WHERE EXISTS (SELECT FROM holder)
    ON CONFLICT (scope, dedup_key) DO NOTHING
    RETURNING task_id
)
SELECT CASE WHEN NOT EXISTS (SELECT FROM holder) THEN 'lost'
            WHEN EXISTS (SELECT FROM mark) THEN 'run' ELSE 'seen' END AS answer, {_IDLE}
"""

BEGIN = Statement(_PLAIN.format(lock=""))
"""Answers ``run`` or ``lost``. ``idle_ms``: after so long without a statement the server ends the
transaction, so that a holder that froze keeps no row locked."""

BEGIN_LOCKING = Statement(_PLAIN.format(lock="FOR NO KEY UPDATE"))
"""The same, with the lease locked until the transaction ends: beats answer ``busy`` meanwhile."""

BEGIN_KEYED = Statement(_KEYED.format(lock=""))
"""Records the dedup key, too; answers ``seen`` if that was done before. It waits for a transaction
that is just recording the same key."""

BEGIN_KEYED_LOCKING = Statement(_KEYED.format(lock="FOR NO KEY UPDATE"))

MARK = Statement(f"""
WITH mark AS (
    INSERT INTO taskbell.effect (scope, dedup_key, task_id)
    VALUES (:scope, :dedup_key, CAST(:task_id AS uuid))
    ON CONFLICT (scope, dedup_key) DO NOTHING
    RETURNING task_id
)
SELECT CASE WHEN EXISTS (SELECT FROM mark) THEN 'run' ELSE 'seen' END AS answer, {_IDLE}
""")
"""The key alone, in another database, where there is no lease to look at."""
