"""Every statement the roles send, one module for each aggregate; nobody else writes SQL.

Rules they keep: READ COMMITTED · locks by kind ``dead_letter → held_partition → outbox → lease →
task``, ids within a kind · only settle and what operators do (cancel, redrive, discard, release)
wait for row locks, all else SKIP LOCKED · ``= ANY (ARRAY(SELECT …))`` instead of joining a CTE,
which a generic plan turns into a scan of the table · instants from ``clock_timestamp()`` ·
asynchronous commit wherever losing the commit is harmless · what an operator did is in
``audit_log`` by the statement that did it.
"""
