"""Events as log lines."""

import json

import pytest

from taskbell.shared.events import RoleStarted
from taskbell.shared.logs import log_to_stderr


def test_several_names_are_a_list_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    observe = log_to_stderr("info", "json")

    observe(RoleStarted("consumer", "me", ("mail", "slow")))

    assert json.loads(capsys.readouterr().err)["queues"] == ["mail", "slow"]
