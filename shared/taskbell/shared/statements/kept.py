"""What a task carries and what it brought, wherever that is kept; for its owner alone."""

from taskbell.shared.statement import Statement


def _content(of: str) -> Statement:
    return Statement(f"""
SELECT t.owner_id, CAST(t.{of} AS text) AS clear, t.{of}_sealed AS sealed, t.{of}_location AS location
FROM taskbell.task t
WHERE t.id = :task_id AND (CAST(:owner_id AS text) IS NULL OR t.owner_id = :owner_id)
""")


PAYLOAD = _content("payload")
RESULT = _content("result")
"""One of the three at most; none of them for a task without a result."""
