"""The certificate that a server shows, for servers that speak TLS."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM texts of a chain, the server's own certificate first, and of its key."""

    chain: bytes
    key: bytes = field(repr=False)

    def write(self, directory: Path, owner: str | None = None) -> tuple[Path, Path]:
        """Write both where that OS user alone can read the key; returns chain and key."""
        chain, key = directory / "server.crt", directory / "server.key"
        for path, text in ((chain, self.chain), (key, self.key)):
            path.touch(mode=0o600)
            path.write_bytes(text)
            if owner is not None:
                shutil.chown(path, owner)
        return chain, key
