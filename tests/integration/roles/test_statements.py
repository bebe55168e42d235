"""Every statement that a role sends is allowed to that role's user.

Postgres judges all that a statement touches before it runs, so that planning it as that user tells;
a statement that nobody was given to fails here.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import product
from pkgutil import iter_modules

import psycopg
import pytest

from support import users
from taskbell.producer.birth import births
from taskbell.producer.gate import Gate
from taskbell.shared import statements
from taskbell.shared.database import conninfo
from taskbell.shared.statement import Statement
from taskbell.shared.statements import dead_letter, listing

MAINTENANCE = ("relay", "consumer")
OPERATORS = ("migrator",)
"""Commands that operators give as the migrator."""

MODULES: Mapping[str, tuple[str, ...]] = {
    "access": OPERATORS,
    "admission": OPERATORS,
    "audit": OPERATORS,
    "bell": MAINTENANCE,
    "cancel": ("api",),
    "claim": ("consumer",),
    "commit": (),
    "content": ("consumer",),
    "data_key": ("producer", "consumer", "api"),
    "dead_letter": ("api",),
    "effect": ("consumer",),
    "grant": (),
    "kept": ("api",),
    "lease": ("consumer",),
    "listing": ("api",),
    "operation": (),
    "outbox": MAINTENANCE,
    "partition": MAINTENANCE,
    "queue": ("api",),
    "reading": ("api",),
    "reseal": OPERATORS,
    "schema": ("relay", "consumer", "api"),
    "settlement": ("consumer",),
    "states": ("api",),
    "storage": MAINTENANCE,
    "task": ("api",),
    "upkeep": MAINTENANCE,
}
"""Who sends the statements of a module."""

EXCEPTIONS: Mapping[str, tuple[str, ...]] = {
    "access.SECRET": ("api",),
    "access.SIGN_IN": ("api",),
    "access.TOUCH": ("api",),
    "admission.LOOK": ("api",),
    "admission.TAKE": ("api",),
    "data_key.ALL_OF_OWNER": OPERATORS,
    "data_key.CREATE": OPERATORS,
    "data_key.ERASE": OPERATORS,
    "data_key.REWRAP": OPERATORS,
    "data_key.WRAPPED": OPERATORS,
    "dead_letter.DISCARD": OPERATORS,
    "lease.NEXT_EXPIRY": MAINTENANCE,
    "queue.KNOWN": OPERATORS,  # broker apply
    "queue.SET_MAX_DEPTH": OPERATORS,
    "queue.SET_ON_DEAD": OPERATORS,
    "queue.COUNT_HELD": OPERATORS,
    "queue.HELD": OPERATORS,
    "queue.RELEASE": OPERATORS,
    "queue.HOLD": ("consumer",),
    "settlement.REAP": MAINTENANCE,
    "storage.UNNAMED": OPERATORS,
    "upkeep.ATTEND": ("consumer",),
    "upkeep.COUNT_SETTLED": ("consumer",),
    "upkeep.DEPART": ("consumer",),
    "upkeep.VACUUM": (),  # it has no plan; whoever may not vacuum is warned
}


def _found() -> Iterator[tuple[str, Statement]]:
    for module in iter_modules(statements.__path__):
        held = vars(import_module(f"{statements.__name__}.{module.name}"))
        for name, value in held.items():
            if isinstance(value, Statement):
                yield f"{module.name}.{name}", value
    for name in ("newest", "oldest", "count", "causes"):
        make = getattr(dead_letter, name)
        yield f"dead_letter.{name}", make(frozenset(dead_letter.FILTERS))
    for walk in ("task", "owner", "correlation", "outbox", "lease", "dead_letter"):
        narrowed = frozenset({"owner_id", "status", "type", "queue", "correlation_id"})
        yield f"listing.page of {walk}", listing.page(walk, narrowed)
    for kept, gate, ring in product((False, True), Gate, (False, True)):
        born = births(ring=ring, kept=kept, gate=gate)
        for way in ("one", "one_with_key", "many", "many_with_keys"):
            yield f"birth.{way} {kept=} {gate.name} {ring=}", getattr(born, way)


FOUND = dict(_found())


def _senders(name: str) -> tuple[str, ...]:
    module = name.partition(".")[0]
    if module == "birth":
        return ("producer", "consumer", "api")
    return EXCEPTIONS.get(name, MODULES[module])


@pytest.mark.parametrize("role", users.ROLES)
def test_a_role_may_send_its_statements(lasting_users: Mapping[str, str], role: str) -> None:
    mine = [name for name in FOUND if role in _senders(name)]
    refused: dict[str, str] = {}
    url = conninfo(lasting_users[role])
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for name in mine:
            try:
                for each in _explained(FOUND[name]):
                    connection.execute(each.encode())
            except psycopg.errors.InsufficientPrivilege as error:
                refused[name] = str(error)
            connection.execute("DEALLOCATE theirs")

    assert mine
    assert refused == {}


def _explained(statement: Statement) -> Iterator[str]:
    order = sorted(statement.parameters)
    numbers = {name: f"${n}" for n, name in enumerate(order, 1)}
    text = re.sub(r"(?<![:\w]):([a-z_]+)\b", lambda found: numbers[found[1]], statement.sql)
    yield f"PREPARE theirs AS {text}"
    yield f"EXPLAIN EXECUTE theirs{'(' + ', '.join(['NULL'] * len(order)) + ')' if order else ''}"


def test_every_module_of_statements_has_somebody_who_sends_them() -> None:
    assert {module.name for module in iter_modules(statements.__path__)} == set(MODULES)
    assert set(EXCEPTIONS) <= set(FOUND)
