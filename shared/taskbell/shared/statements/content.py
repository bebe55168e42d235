"""What a task was given, for whoever can open it."""

from taskbell.shared.statement import Statement

PAYLOAD = Statement("""
SELECT t.payload_sealed AS sealed
FROM taskbell.task t WHERE t.id = CAST(:task_id AS uuid)
""")

IS_THERE = Statement("SELECT t.id FROM taskbell.task t WHERE t.id = CAST(:task_id AS uuid)")
"""Whether there is such a task, whoever's it is."""
