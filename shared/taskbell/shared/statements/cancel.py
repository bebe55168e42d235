"""Cancel: what waits ends at once, what runs is told within a second."""

from taskbell.shared.statement import Statement
from taskbell.shared.statements.bell import ring
from taskbell.shared.statements.operation import log
from taskbell.shared.statements.partition import hand_over, hold, not_held

_HEADS = """SELECT task_id, queue, partition_key FROM gone
            WHERE partition_key IS NOT NULL AND NOT parked"""

_ASKED = """SELECT CAST(c.task_id AS text) AS subject, jsonb_build_object('answer', c.answer) AS detail
    FROM (SELECT task_id, 'cancelled' AS answer FROM ended
          UNION ALL SELECT task_id, 'requested' FROM asked) c"""

CANCEL = Statement(f"""
WITH waiting AS MATERIALIZED (
    SELECT o.task_id FROM taskbell.outbox o
    WHERE o.task_id = ANY (CAST(:task_ids AS uuid[])) ORDER BY o.task_id FOR UPDATE
), gone AS (
    DELETE FROM taskbell.outbox o WHERE o.task_id = ANY (ARRAY(SELECT task_id FROM waiting))
    RETURNING o.task_id, o.queue, o.partition_key, o.parked
), ended AS (
    UPDATE taskbell.task t SET status = 'CANCELLED', finished_at = clock_timestamp()
    WHERE t.id = ANY (ARRAY(SELECT task_id FROM gone)) AND t.status IN ('PENDING', 'RETRYING')
    RETURNING t.id AS task_id
), running AS MATERIALIZED (
    SELECT l.task_id FROM taskbell.lease l
    WHERE l.task_id = ANY (CAST(:task_ids AS uuid[])) ORDER BY l.task_id FOR NO KEY UPDATE
), asked AS (
    UPDATE taskbell.lease l SET cancel_requested = true
    WHERE l.task_id = ANY (ARRAY(SELECT task_id FROM running)) AND NOT l.cancel_requested
    RETURNING l.task_id
), {hold(_HEADS)},
{hand_over(not_held(_HEADS), sparing="AND p.task_id <> ALL (CAST(:task_ids AS uuid[]))")},
{log("cancel", _ASKED)}, {ring("promoted")}
SELECT DISTINCT a.task_id,
       CASE WHEN e.task_id IS NOT NULL THEN 'cancelled'
            WHEN k.task_id IS NOT NULL THEN 'requested'
            WHEN t.id IS NULL THEN 'unknown'
            WHEN t.finished_at IS NOT NULL THEN 'too late: ' || t.status
            ELSE 'moved' END AS answer, (SELECT count(*) FROM rung) AS rung
FROM unnest(CAST(:task_ids AS uuid[])) AS a(task_id)
LEFT JOIN ended e ON e.task_id = a.task_id LEFT JOIN running k ON k.task_id = a.task_id
LEFT JOIN taskbell.task t ON t.id = a.task_id
""")
"""One answer for each id.

``moved``: it was on its way between the tables while we waited for its row; ask again.
``requested``: its holder will be told, and whether it then completes or is cancelled is a race;
asked again, nothing is written again.
"""
