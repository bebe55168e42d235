"""A file that a row names is on the disk before the row is, and so is the way to it."""

import os
from pathlib import Path

import pytest

from taskbell.shared.storage.disk import flush


def test_the_file_and_every_directory_down_to_it_are_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    file = root / "payload" / "_" / "a"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"{}")
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(_name_of(descriptor)))

    flush(root, "payload/_/a")

    assert flushed == [str(each) for each in (file, root / "payload" / "_", root / "payload", root)]


def _name_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())
