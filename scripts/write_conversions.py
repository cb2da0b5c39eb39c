"""Runs the conversions of the matrix and the traps, and writes docs/conversions.md. All of them take about an hour.

python scripts/write_conversions.py              # all
python scripts/write_conversions.py -k silero    # those that pytest selects; the other rows stay
python scripts/write_conversions.py -k is_right  # the traps alone
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
    from conversions import TABLE, cases, committed, committed_traps, page
    from traps._run import load, table_row

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
            str(ROOT / "tests/convert/test_traps.py"),
        ]
        subprocess.run(
            [*command, *sys.argv[1:]], env={**os.environ, "SARDONYX_WRITE_CONVERSIONS": folder}, cwd=ROOT, check=False
        )
        told = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("[0-9]*.json"))]
        sprung = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("trap*.json"))]
    rows = committed() | {(group, name): verdicts for group, name, verdicts, _ in told}
    kept = {(group, name): rows[group, name] for group, name, _ in cases() if (group, name) in rows}
    traps = committed_traps() | {(found["trap_class"], found["name"]): table_row(found) for found in sprung}
    keys = [(trap.trap_class, trap.name) for trap in load()]
    TABLE.write_text(page(kept, {key: traps[key] for key in keys if key in traps}))
    for found in sprung:
        print(f"trap {found['name']}: {found['outcome']} {found['difference']} {found['said']}")
    for group, name, verdicts, reasons in told:
        print(f"{group} / {name}: {verdicts}", *(f"    {reason}" for reason in reasons if reason), sep="\n")


if __name__ == "__main__":
    main()
