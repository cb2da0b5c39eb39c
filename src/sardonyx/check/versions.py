"""IR version and opset against what onnxruntime loads."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.check._releases import changed_after, too_new
from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "ir-too-new": "The IR version is newer than onnxruntime reads.",
    "opset-too-new": "An opset is newer than onnxruntime knows.",
}


def findings(subject: Subject) -> Iterator[Finding]:
    """Versions that are too new for the installed onnxruntime, or for the release that was asked about."""
    if subject.asked_release is None and subject.load.ok:
        return
    limits, where = subject.limits, subject.name
    if subject.proto.ir_version > limits.ir_version:
        yield Finding(
            "error",
            "ir-too-new",
            where,
            f"IR version {subject.proto.ir_version}; onnxruntime {limits.release} reads up to {limits.ir_version}",
            f"sardonyx check {subject.path} --fix OUT stamps IR version {limits.ir_version}",
        )
    for domain, version, newest in too_new(subject, limits):
        name = domain or "ai.onnx"
        changed = sorted(changed_after(subject, domain, newest))
        hint = (
            f"export the model again at opset {newest} or lower: {', '.join(changed)} may differ there"
            if changed
            else f"sardonyx check {subject.path} --fix OUT stamps opset {newest}: no operator of the model changed after it"
        )
        message = f"opset {version} of '{name}'; onnxruntime {limits.release} knows up to {newest}"
        yield Finding("error", "opset-too-new", where, message, hint)
