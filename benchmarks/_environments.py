"""Environments of peers, each with its own libraries, made under build/peers when they are first needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).parent.parent / "build" / "peers"


def environment(name: str, *needs: str, base: str = sys.executable) -> Path:
    """The Python of an environment with these packages. `base` is the interpreter that it is made from."""
    folder = PEERS / name
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        subprocess.run([base, "-m", "venv", "--without-pip", str(folder)], check=True)
        install(*needs, options=("--python", str(python)))
        (folder / "done").touch()
    return python


def install(*needs: str, options: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> None:
    """Installs with the pip of this environment, which need not be the one that it installs into."""
    pip = [sys.executable, "-m", "pip", *options, "--disable-pip-version-check", "install", "--quiet", *after]
    subprocess.run([*pip, *needs], check=True, stdout=sys.stderr)
