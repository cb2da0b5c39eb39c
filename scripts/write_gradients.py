"""Certifies every gradient rule and writes docs/gradients.md. Takes about two minutes.

python scripts/write_gradients.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def main() -> None:
    from gradient_certify import certify
    from gradient_page import PAGE, page
    from gradient_table import CASES

    found: dict[str, list[object]] = {}
    for case in CASES:
        found.setdefault(case.op, []).append(certify(case))
        print(case.id, found[case.op][-1])
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
