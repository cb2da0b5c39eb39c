"""onnxruntime on Android and iOS: the full packages, which have the CPU kernels."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sardonyx import runtime
from sardonyx.check._releases import RunsOn
from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "coreml-coverage": "How many nodes name an operator that onnxruntime's Core ML provider takes.",
    "nnapi-coverage": "How many nodes name an operator that onnxruntime's NNAPI provider takes.",
}
# The lists that onnxruntime's wheel ships for its own usability checker.
_LISTS = {
    "coreml-coverage": ("Core ML", "coreml_supported_mlprogram_ops.md"),
    "nnapi-coverage": ("NNAPI", "nnapi_supported_ops.md"),
}
_SHOWN = 6


def runs_on(subject: Subject) -> RunsOn:
    """Whether a phone's CPU runs it: derived from the load here, since the packages are built from the same kernels."""
    name = f"onnxruntime {runtime.installed_release()}"
    if not subject.load.ok:
        return RunsOn("mobile", False, f"does not load on the CPU with {name}, whose kernels the mobile packages have")
    reason = (
        f"derived: {name} loads it here, and its Android and iOS packages have the same CPU kernels; no phone was asked"
    )
    return RunsOn("mobile", True, reason)


def findings(subject: Subject) -> Iterator[Finding]:
    """How much of the model the accelerators of phones may take; the CPU runs the rest."""
    for code, (provider, file) in _LISTS.items():
        known = _operators(file)
        if not known:
            continue
        nodes = [place.node.op_type for place in subject.operators]
        rest = sorted({operator for operator in nodes if operator.lower() not in known})
        taken = sum(operator.lower() in known for operator in nodes)
        shown = ", ".join(rest[:_SHOWN]) + (f" and {len(rest) - _SHOWN} more" if len(rest) > _SHOWN else "")
        others = f"; the CPU runs {shown}" if rest else ""
        message = f"{provider} may take {taken} of {len(nodes)} nodes, by the list in onnxruntime's package{others}"
        yield Finding("info", code, "mobile", message)


@cache
def _operators(file: str) -> frozenset[str]:
    """Operator names in lower case, as the lists do not agree on capitals; nothing where this wheel ships no list."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return frozenset()
    path = Path(spec.origin).parent / "tools" / "mobile_helpers" / file
    if not path.is_file():
        return frozenset()
    return frozenset(name.lower() for name in re.findall(r"^\|ai\.onnx[:.](\w+)\|", path.read_text(), re.MULTILINE))
