"""House rules that no linter holds: where SQL may stand, how long files and functions may be."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("shared", "producer", "relay", "consumer")
SOURCES = [
    path
    for role in ROLES
    for path in sorted((ROOT / role / "taskbell").rglob("*.py"))
    if not path.is_relative_to(ROOT / "shared/taskbell/shared/migrations")
]
PEERS = ROOT / "tests/benchmarks/peers/programs"
BENCHMARKS = [
    path
    for path in sorted((ROOT / "tests/benchmarks").rglob("*.py"))
    if not path.is_relative_to(PEERS)
]
# Rows by the million and a listener's row: what no producer could write within a benchmark; and
# what somebody would write by hand instead of using us.
MEASURING_HOMES = (
    "tests/benchmarks/floors/web.py",
    "tests/benchmarks/rows_in_front.py",
    "tests/benchmarks/scenarios/ahead.py",
    "tests/benchmarks/scenarios/enqueue.py",
)
WRITES = re.compile(r"\b(INSERT INTO|DELETE FROM|MERGE INTO|UPDATE) taskbell\.\w+ *[\n (SWV]")
SQL_HOMES = (
    "shared/taskbell/shared/statements",
    "shared/taskbell/shared/migration.py",
    "producer/taskbell/producer/birth.py",
)
SQL = re.compile(r"\b(SELECT\b.*|INSERT INTO|UPDATE \w+\.|DELETE FROM|MERGE INTO|VACUUM)\b")
CATCH_ALL_NAMES = re.compile(r"(util|common|helper|manager|base|misc)s?(_|\.|$)")
LONGEST_FILE = 250
LONGEST_FUNCTION = 40


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _texts(tree: ast.AST) -> list[str]:
    prose = set(_docstrings(tree))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose
    ]


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[1 if ast.get_docstring(function) and len(function.body) > 1 else 0]
    return (function.end_lineno or 0) - first.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_only_the_modules_that_own_statements_hold_sql(path: Path) -> None:
    if _name(path).startswith(SQL_HOMES):
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))

    assert [text for text in _texts(tree) if SQL.search(text)] == []


@pytest.mark.parametrize("path", BENCHMARKS, ids=_name)
def test_benchmarks_run_the_roles_statements_and_no_copies(path: Path) -> None:
    if _name(path) in MEASURING_HOMES:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))

    assert [text for text in _texts(tree) if WRITES.search(text)] == []


@pytest.mark.parametrize("path", SOURCES + BENCHMARKS, ids=_name)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    functions = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    assert len(text.splitlines()) <= LONGEST_FILE
    assert {
        function.name: _lines(function)
        for function in functions
        if _lines(function) > LONGEST_FUNCTION
    } == {}


@pytest.mark.parametrize("path", SOURCES + BENCHMARKS, ids=_name)
def test_modules_say_why_they_exist_and_have_a_name_of_their_own(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert not CATCH_ALL_NAMES.match(path.stem)
