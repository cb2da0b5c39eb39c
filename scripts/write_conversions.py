"""Runs the conversions of the matrix and writes docs/conversions.md. All of them take about twenty minutes.

python scripts/write_conversions.py              # all
python scripts/write_conversions.py -k silero    # those that pytest selects; the other rows stay
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    from conversions import TABLE, cases, committed, page

    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "--dist",
            "worksteal",
            str(ROOT / "tests/convert/test_matrix.py"),
        ]
        subprocess.run(
            [*command, *sys.argv[1:]], env={**os.environ, "SARDONYX_WRITE_CONVERSIONS": folder}, cwd=ROOT, check=False
        )
        told = [json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())]
    rows = committed() | {(group, name): verdicts for group, name, verdicts, _ in told}
    TABLE.write_text(page({(group, name): rows[group, name] for group, name, _ in cases() if (group, name) in rows}))
    for group, name, verdicts, reasons in told:
        print(f"{group} / {name}: {verdicts}", *(f"    {reason}" for reason in reasons if reason), sep="\n")


if __name__ == "__main__":
    main()
