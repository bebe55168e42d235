"""Every statement the roles send, one module for each aggregate; nobody else writes SQL.

Rules they keep: READ COMMITTED · locks by kind ``dead_letter → outbox → lease → task``, ids within
a kind · only settle waits for row locks, all else SKIP LOCKED · ``= ANY (ARRAY(SELECT …))``
instead of joining a CTE, which a generic plan turns into a scan of the table · instants from
``clock_timestamp()`` · asynchronous commit wherever losing the commit is harmless.
"""
