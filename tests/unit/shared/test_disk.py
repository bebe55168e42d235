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

    def fsync(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)

    flush(root, "payload/_/a")

    assert flushed == [str(each) for each in (file, root / "payload" / "_", root / "payload", root)]
