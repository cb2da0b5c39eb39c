"""What `make test` installs from npm, and Node to run it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PACKAGES = Path(__file__).parent.parent / "build" / "node" / "node_modules"


def path(name: str) -> Path:
    """A file of an installed package. A missing one fails the test: these are never skipped."""
    found = PACKAGES / name
    if not found.exists():
        raise FileNotFoundError(f"{found} is not installed; `make test` installs what the tests take from npm")
    return found


def run(script: Path, *words: str | Path) -> str:
    """What a CommonJS script prints, with the installed packages at hand."""
    path("onnxruntime-web")
    done = subprocess.run(
        ["node", os.fspath(script), *map(os.fspath, words)], env={**os.environ, "NODE_PATH": os.fspath(PACKAGES)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
