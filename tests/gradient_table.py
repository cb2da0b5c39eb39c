"""The cases at which every gradient rule is certified: those of all files in `gradient_cases`. A rule without one is a fault."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from gradient_certify import Case

FOLDER = Path(__file__).parent / "gradient_cases"
CASES: list[Case] = [
    one
    for name in sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
    for one in import_module(f"gradient_cases.{name}").CASES
]
