"""docs/gradients.md: every operator, how it is differentiated, and how far that lies from the references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from gradient_certify import Certificate
from gradient_table import CASES
from sardonyx import runtime
from sardonyx.gradient.pull import supported
from sardonyx.gradient.tables import tables

PAGE = Path(__file__).parent.parent / "docs" / "gradients.md"
HEAD = """# Operators that have a gradient

Written by `python scripts/write_gradients.py`. The error of a row is the worst of its cases, in float64, relative to the larger
of one and the gradient. *Differences*: central differences of the operator along random directions. *PyTorch*: the same gradient
by PyTorch, where it has the operator; attributes are single numbers, so agreement ends near 1e-7. *Second order*: central
differences of the gradient graph against the gradient of that graph. A dash: not compared. Operators that ONNX defines for
float32 alone are compared with PyTorch in float32.

| operator | by | cases | differences | PyTorch | second order |
|---|---|---|---|---|---|
"""


def operators() -> list[str]:
    """Every operator of the newest opset that the runtime loads."""
    newest = runtime.limits().opset
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    return sorted(name for name in names if _exists(name, newest))


def _exists(name: str, opset: int) -> bool:
    try:
        return not onnx.defs.get_schema(name, opset, "").deprecated
    except onnx.defs.SchemaError:
        return False


def by(op: str) -> str:
    known = tables()
    if op in known.rules:
        return "rule"
    return "expansion" if op in known.expansions else "ONNX's function body"


def uncovered() -> list[str]:
    """Operators with float inputs that `differentiate` refuses, and that are not known to have no gradient."""
    return [op for op in operators() if not supported(op, runtime.limits().opset)]


def page(certificates: Mapping[str, Iterable[Certificate]]) -> str:
    rows = [_row(op, list(found)) for op, found in sorted(certificates.items())]
    zero = ", ".join(op for op in operators() if op in tables().zero)
    return (
        HEAD
        + "\n".join(rows)
        + "\n\n## No gradient by nature\n\n"
        + f"These are constant wherever they are smooth, or give no floats: the gradient stops here.\n\n{zero}\n\n"
        + f"## Refused\n\nA model that trains through one of these is refused, with the node named.\n\n{', '.join(uncovered())}\n"
    )


def _row(op: str, found: list[Certificate]) -> str:
    cells = [op, by(op), str(len(found))]
    for name in ("differences", "torch", "second"):
        numbers = [value for one in found if (value := getattr(one, name)) is not None]
        cells.append(f"{max(numbers):.0e}" if numbers else "–")
    return "| " + " | ".join(cells) + " |"


def committed() -> dict[str, tuple[str, int]]:
    """Operator to how it is differentiated and its number of cases, as the page says."""
    rows = re.findall(r"^\| (\w+) \| ([^|]+) \| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    return {op: (how, int(count)) for op, how, count in rows}


def expected() -> dict[str, tuple[str, int]]:
    ops = [case.op for case in CASES]
    return {op: (by(op), ops.count(op)) for op in ops}
