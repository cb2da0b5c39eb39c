"""Opset imports that name a domain twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import onnx

from sardonyx.check._places import domain_of
from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "duplicate-opset-import": "A domain is imported more than once, with one version.",
    "conflicting-opset-import": "A domain is imported more than once, with different versions.",
}


def findings(subject: Subject) -> Iterator[Finding]:
    """Domains that are imported more than once; libraries disagree on which import holds."""
    fix = f"sardonyx check {subject.path} --fix OUT keeps the last, as onnxruntime does"
    yield from _repeated(subject.proto.opset_import, subject.name, fix)
    for function in subject.proto.functions:
        yield from _repeated(function.opset_import, f"function {function.name}", "remove all but one of the imports")


def _repeated(entries: Iterable[onnx.OperatorSetIdProto], where: str, hint: str) -> Iterator[Finding]:
    versions: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        versions[domain_of(entry.domain)].append(entry.version)
    for domain, found in versions.items():
        name = domain or "ai.onnx"
        if len(set(found)) > 1:
            listed = ", ".join(map(str, found))
            message = f"imports '{name}' in versions {listed}: its meaning depends on who reads it"
            yield Finding("error", "conflicting-opset-import", where, message, hint)
        elif len(found) > 1:
            message = f"imports '{name}' version {found[0]} {len(found)} times"
            yield Finding("warning", "duplicate-opset-import", where, message, hint)
