"""How durable a commit is: what may be repeated need not wait for the disk."""

RELAXED = "(SELECT set_config('synchronous_commit', 'off', true)) = 'off'"
"""A condition that holds: evaluated once a statement, it lets the transaction commit without
waiting for the disk. In a list of columns it would be evaluated for each row."""
