"""What is known of queues."""

from taskbell.shared.statement import Statement

KNOWN = Statement("SELECT q.name AS queue FROM taskbell.queue q ORDER BY q.name")
