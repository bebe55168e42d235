"""What Postgres does for a statement of ours: the plan it executed, and what it read."""

from collections.abc import Iterator
from typing import Any

from psycopg import ClientCursor, Connection

from taskbell.shared.statement import Statement

Node = dict[str, Any]


def executed(connection: Connection[Any], statement: Statement, **given: object) -> list[Node]:
    """The nodes of the plan for these values, the root first."""
    with ClientCursor(connection) as cursor:
        return _executed(cursor, statement.for_psycopg, given)


def prepared(
    connection: Connection[Any], statement: Statement, mode: str, **given: object
) -> list[Node]:
    """The same of a prepared statement, by its ``custom`` or ``generic`` plan; rolled back."""
    order = sorted(statement.parameters)
    numbers = {name: f"${n}" for n, name in enumerate(order, 1)}
    slots = ", ".join(f"%({name})s" for name in order)
    with ClientCursor(connection) as cursor:
        cursor.execute(f"SET LOCAL plan_cache_mode = force_{mode}_plan".encode())
        cursor.execute(f"PREPARE asked AS {statement.for_psycopg.decode() % numbers}".encode())
        found = _executed(cursor, f"EXECUTE asked ({slots})".encode(), given)
        cursor.execute("DEALLOCATE asked")
    connection.rollback()
    return found


def _executed(cursor: ClientCursor[Any], sql: bytes, given: dict[str, object]) -> list[Node]:
    cursor.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, given)
    (answer,) = cursor.fetchone() or (None,)
    assert answer is not None
    return list(_nodes(answer[0]["Plan"]))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def read(nodes: list[Node]) -> int:
    """How many blocks of the tables and indexes were looked at."""
    return int(nodes[0]["Shared Hit Blocks"] + nodes[0]["Shared Read Blocks"])
