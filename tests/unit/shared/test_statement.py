"""A statement reads the same to both drivers."""

import importlib
import pkgutil

import pytest

from taskbell.shared import statements
from taskbell.shared.statement import Statement


def test_parameters_become_psycopgs_placeholders() -> None:
    statement = Statement("SELECT :a, CAST(:b_c AS text) WHERE x LIKE '50%'")

    assert statement.for_psycopg == b"SELECT %(a)s, CAST(%(b_c)s AS text) WHERE x LIKE '50%%'"
    assert statement.parameters == {"a", "b_c"}


def _all_statements() -> list[tuple[str, Statement]]:
    modules = [
        importlib.import_module(f"{statements.__name__}.{module.name}")
        for module in pkgutil.iter_modules(statements.__path__)
    ]
    return [
        (f"{module.__name__}.{name}", value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Statement)
    ]


@pytest.mark.parametrize(("name", "statement"), _all_statements())
def test_sqlalchemy_sees_the_same_parameters(name: str, statement: Statement) -> None:
    compiled = statement.for_sqlalchemy.compile()

    assert set(compiled.params) == statement.parameters, name
