"""Which objects nobody refers to any more."""

from taskbell.shared.statement import Statement

DATABASE_NAME = Statement("""
SELECT concat_ws('/', c.system_identifier, d.oid) AS name
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()
""")
"""Tells this database from every other one, also of other servers."""

ORPHANS = Statement("""
SELECT o.path
FROM unnest(CAST(:task_ids AS uuid[]), CAST(:paths AS text[]), CAST(:written_at AS timestamptz[]))
     AS o(task_id, path, written_at)
WHERE o.written_at < clock_timestamp() - make_interval(secs => CAST(:keep AS float8))
  AND NOT EXISTS (
      SELECT FROM taskbell.task t
      WHERE t.id = o.task_id
        AND (split_part(t.payload_location, '#', 1) = o.path
             OR split_part(t.result_location, '#', 1) = o.path))
""")
"""Of these objects the ones that are older than ``keep`` seconds and that no row names.

A younger one may belong to a transaction that is not committed yet.
"""

UNNAMED = Statement("""
SELECT o.path
FROM unnest(CAST(:task_ids AS uuid[]), CAST(:paths AS text[])) AS o(task_id, path)
WHERE NOT EXISTS (
    SELECT FROM taskbell.task t
    WHERE t.id = o.task_id
      AND (split_part(t.payload_location, '#', 1) = o.path
           OR split_part(t.result_location, '#', 1) = o.path))
  AND o.path NOT IN (
    SELECT split_part(t.payload_location, '#', 1) FROM taskbell.task t
    WHERE t.owner_id = :owner_id AND t.payload_location LIKE 'client/%')
""")
"""Of these objects of one owner the ones that no row names.

The name of an object that we wrote tells its task; that of a client's does not.
"""
