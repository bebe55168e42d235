"""Whether there is a task still, for whoever looks at its content."""

from taskbell.shared.statement import Statement

IS_THERE = Statement("SELECT t.id FROM taskbell.task t WHERE t.id = CAST(:task_id AS uuid)")
"""Whether there is such a task, whoever's it is."""
