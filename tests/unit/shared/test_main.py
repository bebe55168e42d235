"""The console script: what it offers, and how it ends when it cannot go on."""

import re
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner, Result

from taskbell.shared import main as script
from taskbell.shared.cli.app import GROUP, build


def call(*arguments: str, found: tuple[EntryPoint, ...] = ()) -> Result:
    return CliRunner().invoke(build(found), arguments, env={"TASKBELL_DATABASE_URL": ""})


def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("taskbell.shared.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)

    code = script.main()

    assert code == 2
    assert capsys.readouterr() == (
        "",
        "taskbell needs its command line: pip install 'taskbell-shared[cli]'\n",
    )


def test_a_module_of_our_own_that_is_missing_is_not_blamed_on_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "taskbell.shared.cli.app", None)

    with pytest.raises(ModuleNotFoundError):
        script.main()


def test_a_role_that_is_installed_adds_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    role = ModuleType("installed_role")

    def register(app: typer.Typer) -> None:
        app.command("greet")(lambda: typer.echo("hello"))

    monkeypatch.setattr(role, "register", register, raising=False)
    monkeypatch.setitem(sys.modules, "installed_role", role)

    result = call("greet", found=(EntryPoint("greet", "installed_role:register", GROUP),))

    assert (result.exit_code, result.output) == (0, "hello\n")


def test_a_role_that_cannot_be_imported_says_so_and_leaves_the_rest_alone() -> None:
    broken = EntryPoint("relay", "no_such_module:register", GROUP)

    relay = call("relay", "--verbose", "now", found=(broken,))
    version = call("version", found=(broken,))

    assert relay.exit_code == 2
    assert relay.stderr == "taskbell relay cannot be loaded: No module named 'no_such_module'\n"
    assert version.exit_code == 0


def test_the_version_is_shown() -> None:
    result = call("version")

    assert re.fullmatch(r"taskbell \d+\.\d+\.\d+\n", result.stdout)


def test_migrate_prints_the_whole_script_without_a_database() -> None:
    result = call("migrate", "--sql")

    assert result.exit_code == 0
    assert result.stdout.startswith("BEGIN;")
    assert result.stdout.rstrip().endswith("COMMIT;")
    assert "INSERT INTO taskbell.schema_version" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["migrate"], 2, "name the database by --database-url or TASKBELL_DATABASE_URL"),
        (["migrate", "--sql", "--check"], 2, "choose one"),
        (["migrate", "--database-url", "geheim"], 1, "not a URL of Postgres"),
        (["migrate", "--database-url", "mysql://u:geheim@h/x"], 1, "not a URL of Postgres"),
        (["migrate", "--check", "--database-url", "postgres://u:geheim@/x?host=/nowhere"], 1, ""),
    ],
)
def test_a_call_that_cannot_be_answered_ends_in_one_line(
    arguments: list[str], code: int, sentence: str
) -> None:
    result = call(*arguments)

    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "geheim" not in result.output
