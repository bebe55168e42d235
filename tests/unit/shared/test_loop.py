"""How a role's process ends: with its code, whatever a thread still does."""

import subprocess
import sys

import pytest

from support.waiting import PATIENCE


def _ended(body: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import asyncio, threading\n"
        "from taskbell.shared.loop import end_with\n"
        "async def running():\n"
        "    thread = asyncio.ensure_future(asyncio.to_thread(threading.Event().wait))\n"
        "    await asyncio.sleep(0)\n"
        "    print('said')\n"
        f"    {body}\n"
        "end_with(running())\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 3])
def test_a_process_ends_with_its_code_although_a_thread_waits_for_ever(code: int) -> None:
    ended = _ended(f"return {code}")

    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "said\n", "")


def test_a_crash_is_told_and_does_not_wait_for_threads_either() -> None:
    ended = _ended("raise LookupError('why')")

    assert (ended.returncode, ended.stdout) == (1, "said\n")
    assert ended.stderr.endswith("LookupError: why\n")
