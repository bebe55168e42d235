"""The doorbell: who listens, who is awake, and the ring inside every statement that fills outbox.

A row promises "I pass until ``awake_until``, and listen until ``listen_until``". A statement rings
only if somebody listens and nobody is awake, so that no commit under load takes Postgres' global
notification lock.
"""

from taskbell.shared.statement import Statement

CHANNEL = "taskbell"


def ring(*filled_by: str) -> str:
    """Return the CTE ``rung``: rings if one of the named CTEs returned a row.

    The statement must read ``rung``, or Postgres does not run it.
    """
    filled = " OR ".join(f"EXISTS (SELECT FROM {cte})" for cte in filled_by)
    return f"""rung AS MATERIALIZED (
    SELECT pg_notify('{CHANNEL}', '') FROM taskbell.bell
    HAVING max(listen_until) > clock_timestamp() AND max(awake_until) <= clock_timestamp()
       AND ({filled})
)"""


PROMISE = Statement("""
INSERT INTO taskbell.bell (listener_id, awake_until, listen_until)
VALUES (:listener_id, clock_timestamp() + make_interval(secs => :awake),
        clock_timestamp() + make_interval(secs => :listen))
ON CONFLICT (listener_id) DO UPDATE
SET awake_until = EXCLUDED.awake_until, listen_until = EXCLUDED.listen_until
RETURNING set_config('synchronous_commit', 'off', true)
""")

FORGET = Statement("""
DELETE FROM taskbell.bell
WHERE listener_id = :listener_id OR listen_until < clock_timestamp() - interval '1 minute'
RETURNING listener_id
""")

TEST_RING = Statement(f"SELECT pg_notify('{CHANNEL}', :listener_id)")
