"""uvloop for the processes of all roles, as their extra of that name would bring it."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

VERSION: Final = "0.23.0"
_HOME: Final = Path(__file__).resolve().parents[2] / "build" / "uvloop"


def installed() -> Path | None:
    """Install it into a directory of its own, once; None if it could not be had."""
    home = _HOME / f"{VERSION}-{sys.version_info.major}.{sys.version_info.minor}"
    if not home.exists():
        uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
        made = home.with_name(f"{home.name}.part")
        command = [uv, "pip", "install", "--quiet", "--target", str(made), f"uvloop=={VERSION}"]
        if subprocess.run([*command, "--python", sys.executable], check=False).returncode:
            return None
        made.rename(home)
    return home
