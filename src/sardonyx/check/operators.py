"""Operators that nobody defines, or not in the opset that the model imports."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from functools import cache

import onnx

from sardonyx.check._kernels import installed
from sardonyx.check._places import Place
from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "unknown-operator": "Neither onnx nor onnxruntime nor the model itself defines the operator.",
    "domain-not-imported": "A node uses a domain of operators that the model does not import.",
    "operator-newer-than-opset": "The operator came with a later opset than the model imports.",
    "operator-removed": "The operator was removed before the opset that the model imports.",
    "nonstandard-operator": "The operator is not part of the ONNX standard; only onnxruntime knows it.",
}
_STANDARD = ("", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training")


def findings(subject: Subject) -> Iterator[Finding]:
    """Operators without a definition in the imported version; one finding for each, naming its first node."""
    told: set[tuple[str, str]] = set()
    nonstandard: Counter[str] = Counter()
    for place in subject.operators:
        key = (place.node.domain, place.node.op_type)
        if subject.load.ok and place.version is not None:
            nonstandard.update([_name(place)] if _only_onnxruntime_knows(place) else [])
        elif key not in told and (found := _trouble(place, subject)) is not None:
            told.add(key)
            yield found
    if nonstandard:
        listed = ", ".join(f"{name} ({count})" for name, count in nonstandard.most_common())
        message = f"uses operators outside the ONNX standard: {listed}"
        hint = "this is fine on onnxruntime; other runtimes will refuse the model"
        yield Finding("info", "nonstandard-operator", subject.name, message, hint)


def _trouble(place: Place, subject: Subject) -> Finding | None:
    operator, domain, version = place.node.op_type, place.domain, place.version
    name = domain or "ai.onnx"
    if version is None:
        message = f"the model does not import '{name}'"
        hint = "add an opset import for the domain"
        return Finding(subject.severity, "domain-not-imported", place.where, message, hint)
    known = _versions(domain, operator)
    if not known:
        return None if _known_to_runtime(place) else _unknown(place)
    if version < known[0]:
        return _finding(
            "operator-newer-than-opset",
            place,
            f"{operator} came with opset {known[0]} of '{name}', and the model imports {version}",
            f"sardonyx check {subject.path} --fix OUT raises the opset",
        )
    if onnx.defs.get_schema(operator, version, domain).deprecated:
        return _finding(
            "operator-removed",
            place,
            f"{operator} was removed before opset {version} of '{name}'",
            "export the model again with a current exporter",
        )
    return None


def _unknown(place: Place) -> Finding:
    if place.domain not in _STANDARD:
        hint = "register the library of custom operators that defines it, or export the model without it"
    else:
        near = difflib.get_close_matches(place.node.op_type, _operators(place.domain), n=1)
        hint = f"did the exporter mean {near[0]}?" if near else "export the model without it"
    return _finding("unknown-operator", place, f"no operator {_name(place)} is known", hint)


def _finding(code: str, place: Place, message: str, hint: str) -> Finding:
    return Finding("error", code, place.where, message, hint)


def _name(place: Place) -> str:
    return f"{place.domain}.{place.node.op_type}" if place.domain else place.node.op_type


def _only_onnxruntime_knows(place: Place) -> bool:
    return not _versions(place.domain, place.node.op_type)


def _known_to_runtime(place: Place) -> bool:
    runtime = installed()
    return runtime is not None and runtime.knows(place.domain, place.node.op_type)


@cache
def _versions(domain: str, operator: str) -> list[int]:
    """The opsets in which onnx defines the operator anew, oldest first."""
    return sorted(_definitions().get((domain, operator), ()))


def _operators(domain: str) -> list[str]:
    return [operator for of, operator in _definitions() if of == domain]


@cache
def _definitions() -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema.since_version)
    return found
