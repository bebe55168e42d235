"""What the OpenAPI document promises is what the interface does, as a stranger's tool sees it.

schemathesis runs as a process of its own: neither its plugins nor its warnings are ours.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from services.guarded import LOOPBACK, Port
from support.fleet import Fleet, open_fleet
from support.web import new_key

HERE: Final = Path(__file__).parent
EXAMPLES: Final = 20
ARGUMENTS: Final = (
    "--checks", "all", "--phases", "examples,coverage,fuzzing,stateful", "--seed", "1",
    "--max-examples", str(EXAMPLES), "--workers", "1", "--generation-database", "none",
)  # fmt: skip


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """A process of the HTTP interface alone."""
    yield from open_fleet(tmp_path, database_url, None)


@pytest.mark.timeout(1200)
def test_the_interface_keeps_what_its_document_promises(fleet: Fleet, tmp_path: Path) -> None:
    port = Port()
    fleet.environment |= {"TASKBELL_API_PORT": str(port), "TASKBELL_API_STREAM_SECONDS": "1"}
    fleet.start("api", "taskbell.producer.api")
    key = new_key(fleet.database_url, "shop")

    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("st")), "--no-color"),
            *("--config-file", str(HERE / "schemathesis.toml")),
            *("run", f"http://{LOOPBACK}:{port}/openapi.json", *ARGUMENTS),
        ],
        env={
            **os.environ,
            "CONTRACT_KEY": key,
            "PYTHONPATH": str(HERE),
            "SCHEMATHESIS_HOOKS": "hooks",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    port.release()

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert fleet.ended("api") is None
    assert "request_failed" not in fleet.tail("api")
