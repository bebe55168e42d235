"""The command line as an operator types it, but in this process."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from taskbell.shared.cli.app import build


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database, which the commands find in the environment, and neither keys nor storage."""
    monkeypatch.setenv("TASKBELL_DATABASE_URL", database_url)
    monkeypatch.delenv("TASKBELL_SEAL_KEYS", raising=False)
    monkeypatch.delenv("TASKBELL_STORAGE_URL", raising=False)
    return database_url


def call(*arguments: object) -> Result:
    """Run ``taskbell`` with these words."""
    return CliRunner().invoke(build(()), [str(each) for each in arguments])


def told(*arguments: object, code: int = 0) -> Any:
    """What it says to programs."""
    result = call(*arguments, "--output", "json")
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    return json.loads(result.stdout)


def refusal(*arguments: object, code: int) -> str:
    """The one line in which it says why not."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (line,) = result.stderr.splitlines()
    return line
