"""The command is there without its extra, and says what it needs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "httptools", "jwt"])
def test_without_the_extra_one_line_names_it(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from taskbell.shared.cli.app import build\n"
        "build()(['api'])"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert ended.stderr == "taskbell api needs its extra: pip install 'taskbell-producer[api]'\n"


def test_the_command_line_loads_no_web_framework() -> None:
    code = (
        "import sys; from taskbell.shared.cli.app import build; build()\n"
        "print({'fastapi', 'starlette', 'uvicorn', 'jwt'} & set(sys.modules))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "set()"
