"""Rings of keys, and what seals by them."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from taskbell.shared.sealing import Seals


def ring(*key_ids: str) -> str:
    """A ring of keys with these ids, the same key for the same id, as the environment holds it."""
    keys = (b64encode(sha256(each.encode()).digest()).decode() for each in key_ids)
    return ",".join(f"{key_id}:{key}" for key_id, key in zip(key_ids, keys, strict=True))


def seals_of(*key_ids: str) -> Seals:
    """Seals with such a ring, which know nothing of owners' keys yet."""
    seals = Seals.of(ring(*key_ids), None)
    assert seals is not None
    return seals


def write(file: Path, *lines: str) -> None:
    """As deployments do it: another file takes the place of the old one."""
    new = file.with_suffix(".new")
    new.write_text("\n".join(lines), encoding="utf-8")
    new.replace(file)
