"""Four distributions in lockstep, one namespace, and a producer that brings little."""

import ast
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROLES = ("consumer", "producer", "relay", "shared")
MODULES = sorted(path for role in ROLES for path in (ROOT / role / "taskbell").rglob("*.py"))
# A producer lives in somebody else's service: what it may not bring along.
UNWANTED = {
    "aio-pika",
    "aiormq",
    "alembic",
    "click",
    "fastapi",
    "rich",
    "starlette",
    "structlog",
    "typer",
    "uvicorn",
}


@cache
def project(role: str) -> dict[str, Any]:
    text = (ROOT / role / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def uv() -> list[str]:
    """The command; a machine without uv cannot prove anything about wheels, which is an error."""
    local = ROOT / ".tooling" / "bin" / "uv"
    if found := shutil.which("uv") or (str(local) if local.exists() else None):
        return [found]
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    pytest.fail("uv is needed: put it on PATH or into .tooling/bin", pytrace=False)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def succeed(*command: str) -> str:
    result = run(*command)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def producer_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of a clean environment with `taskbell-producer`, installed from our wheels."""
    wheels = tmp_path_factory.mktemp("wheels")
    environment = tmp_path_factory.mktemp("clean") / "venv"
    succeed(*uv(), "build", "--project", str(ROOT), "--all-packages", "--wheel", "-o", str(wheels),
            str(ROOT))  # fmt: skip
    succeed(*uv(), "venv", "--python", sys.executable, str(environment))
    scripts = environment / "bin"
    # By path, so that nothing of that name in an index can take their place.
    ours = [str(path) for role in ("producer", "shared") for path in wheels.glob(f"*_{role}-*.whl")]
    succeed(*uv(), "pip", "install", "--python", str(scripts / "python"), *ours)
    return scripts


def test_all_distributions_have_one_version() -> None:
    assert len({project(role)["version"] for role in ROLES}) == 1


def test_whoever_runs_a_process_of_its_own_offers_the_faster_loop() -> None:
    running = {
        path.relative_to(ROOT).parts[0] for path in MODULES
        if "import end_with" in path.read_text(encoding="utf-8")
    }  # fmt: skip

    offered = {role: project(role)["optional-dependencies"].get("uvloop") for role in running}

    assert offered == {role: ["uvloop>=0.21"] for role in ("consumer", "producer", "relay")}


@pytest.mark.parametrize("role", ROLES)
def test_siblings_are_pinned_exactly_also_in_extras(role: str) -> None:
    extras: dict[str, list[str]] = project(role).get("optional-dependencies", {})
    wanted = [*project(role)["dependencies"], *(one for extra in extras.values() for one in extra)]

    siblings = [one for one in wanted if one.startswith("taskbell-")]

    pin = re.compile(rf"taskbell-\w+(\[[\w,-]+\])?=={re.escape(project(role)['version'])}")
    assert [one for one in siblings if not pin.fullmatch(one)] == []
    assert siblings or role == "shared"


@pytest.mark.parametrize("role", ROLES)
def test_every_distribution_is_typed_and_leaves_the_namespace_open(role: str) -> None:
    assert (ROOT / role / "taskbell" / role / "py.typed").is_file()
    assert not (ROOT / role / "taskbell" / "__init__.py").exists()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_module_says_it_exports_is_sorted_and_complete(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    exported = exports(body)
    if exported is None:
        return

    assert exported == sorted(exported, key=as_ruff_sorts)
    assert missing(path, body, exported) == []
    assert [name for name in exported if name not in bound(body)] == []


@pytest.mark.parametrize("role", ["producer", "relay", "consumer", "shared"])
def test_whatever_a_role_exports_can_be_imported(role: str) -> None:
    face = importlib.import_module(f"taskbell.{role}")

    assert [name for name in getattr(face, "__all__", ()) if not hasattr(face, name)] == []


def exports(body: list[ast.stmt]) -> list[str] | None:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                names: list[str] = ast.literal_eval(value)
                return list(names)
            case _:
                pass
    return None


def as_ruff_sorts(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def bound(body: list[ast.stmt]) -> set[str]:
    """Every name the module's top level binds."""
    names: set[str] = set()
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case ast.If(test=ast.Name("TYPE_CHECKING"), body=named_for_checkers):
                names |= bound(named_for_checkers)
            case _:
                pass
    return names


def missing(path: Path, body: list[ast.stmt], exported: list[str]) -> list[str]:
    """Public classes and functions; in a package's face also what it takes from its modules."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    public = {one.name for one in body if isinstance(one, kinds)}
    if path.name == "__init__.py":
        own = [one for one in body if isinstance(one, ast.ImportFrom)]
        own = [one for one in own if (one.module or "").startswith("taskbell.")]
        public |= {alias.asname or alias.name for one in own for alias in one.names}
    return sorted(name for name in public if not name.startswith("_") and name not in exported)


@pytest.mark.timeout(600)
def test_a_producer_brings_the_database_driver_and_no_broker_web_or_command_line(
    producer_environment: Path,
) -> None:
    python = str(producer_environment / "python")

    listed = succeed(*uv(), "pip", "list", "--python", python, "--format", "json")

    names = {package["name"] for package in json.loads(listed)}
    assert {"taskbell-producer", "taskbell-shared", "sqlalchemy", "psycopg"} <= names
    assert names & UNWANTED == set()


@pytest.mark.timeout(600)
def test_a_producer_is_imported_alone(producer_environment: Path) -> None:
    python = str(producer_environment / "python")
    # psycopg in pure Python needs a libpq, which this machine may not have.
    succeed(*uv(), "pip", "install", "--python", python, "psycopg[binary]")

    succeed(python, "-W", "error", "-c", "import taskbell.producer, taskbell.shared.rows")
    relay = run(python, "-c", "import taskbell.relay")

    assert relay.returncode == 1
    assert "No module named 'taskbell.relay'" in relay.stderr


@pytest.mark.timeout(600)
def test_the_script_without_the_extra_says_what_to_install(producer_environment: Path) -> None:
    result = run(str(producer_environment / "taskbell"))

    assert result.returncode == 2
    assert result.stderr == "taskbell needs its command line: pip install 'taskbell-shared[cli]'\n"
