"""Every statement that a role sends is allowed to that role's user.

Postgres judges all that a statement touches before it runs, so that planning it as that user tells;
a statement that nobody was given to fails here.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules

import psycopg
import pytest

from taskbell.producer import birth
from taskbell.shared import statements
from taskbell.shared.database import conninfo
from taskbell.shared.statement import Statement

MAINTENANCE = ("relay", "consumer")
EVERYBODY = ("producer", "relay", "consumer", "api")
OPERATORS = ("migrator",)
"""Commands that operators give as the migrator."""

MODULES: Mapping[str, tuple[str, ...]] = {
    "audit": OPERATORS,
    "bell": MAINTENANCE,
    "cancel": ("api",),
    "claim": ("consumer",),
    "data_key": ("producer", "consumer", "api"),
    "dead_letter": ("api",),
    "effect": ("consumer",),
    "grant": (),
    "lease": ("consumer",),
    "operation": (),
    "outbox": MAINTENANCE,
    "partition": MAINTENANCE,
    "queue": ("api",),
    "schema": ("relay", "consumer", "api"),
    "settlement": ("consumer",),
    "task": ("api",),
    "upkeep": MAINTENANCE,
}
"""Who sends the statements of a module."""

EXCEPTIONS: Mapping[str, tuple[str, ...]] = {
    "dead_letter.DISCARD": OPERATORS,
    "lease.NEXT_EXPIRY": MAINTENANCE,
    "queue.KNOWN": OPERATORS,  # broker apply
    "queue.SET_ON_DEAD": OPERATORS,
    "queue.HELD": OPERATORS,
    "queue.RELEASE": OPERATORS,
    "queue.HOLD": ("consumer",),
    "settlement.REAP": MAINTENANCE,
    "upkeep.ATTEND": ("consumer",),
    "upkeep.COUNT_SETTLED": ("consumer",),
    "upkeep.DEPART": ("consumer",),
    "upkeep.VACUUM": (),  # it has no plan; whoever may not vacuum is warned
}


def _found() -> Iterator[tuple[str, Statement]]:
    for module in iter_modules(statements.__path__):
        held = vars(import_module(f"{statements.__name__}.{module.name}"))
        for name, value in held.items():
            yield from ((f"{module.name}.{each}", s) for each, s in _of(name, value))
    for ways in ("RINGING", "SILENT"):
        for way in ("one", "one_with_key", "many", "many_with_keys"):
            yield f"birth.{ways}.{way}", getattr(getattr(birth, ways), way)


def _of(name: str, value: object) -> Iterator[tuple[str, Statement]]:
    """A statement, or all that a cached function of filters makes."""
    if isinstance(value, Statement):
        yield name, value
    elif hasattr(value, "cache_info") and "filters" in inspect.signature(value).parameters:  # type: ignore[arg-type]
        yield name, value(frozenset())  # type: ignore[operator]


FOUND = dict(_found())


def _senders(name: str) -> tuple[str, ...]:
    module = name.partition(".")[0]
    if module == "birth":
        return ("producer", "consumer", "api")
    return EXCEPTIONS.get(name, MODULES[module])


CASES = [(role, name) for name in FOUND for role in _senders(name)]


@pytest.mark.parametrize(("role", "name"), CASES, ids=lambda each: str(each))
def test_a_role_may_send_its_statements(
    lasting_users: Mapping[str, str], role: str, name: str
) -> None:
    with psycopg.connect(conninfo(lasting_users[role])) as connection:
        for each in _explained(FOUND[name]):
            connection.execute(each.encode())
        connection.rollback()


def _explained(statement: Statement) -> Iterator[str]:
    order = sorted(statement.parameters)
    numbers = {name: f"${n}" for n, name in enumerate(order, 1)}
    text = re.sub(r"(?<![:\w]):([a-z_]+)\b", lambda found: numbers[found[1]], statement.sql)
    yield f"PREPARE theirs AS {text}"
    yield f"EXPLAIN EXECUTE theirs{'(' + ', '.join(['NULL'] * len(order)) + ')' if order else ''}"


def test_every_module_of_statements_has_somebody_who_sends_them() -> None:
    assert {module.name for module in iter_modules(statements.__path__)} == set(MODULES)
    assert set(EXCEPTIONS) <= set(FOUND)
