"""onnx's own checker, on the file."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.check._subject import Subject, plain
from sardonyx.report import Finding

CODES = {
    "onnx-invalid": "onnx's checker says that the model breaks a rule of ONNX.",
    "checker-crashed": "onnx's checker crashed, hung or ran out of memory on the model.",
}
# These faults have checks of their own, which name the node and the way out.
_TOLD_ELSEWHERE = (
    "topologically sorted", "No Op registered for", "No opset import for domain", "is deprecated in domain_version",
)  # fmt: skip


def findings(subject: Subject) -> Iterator[Finding]:
    """What onnx's checker objects to."""
    said = subject.examination
    if said.failed_in == "checker" and said.failure is not None:
        yield Finding(
            "error",
            "checker-crashed",
            subject.name,
            f"onnx's checker did not survive the model: {said.failure.reason}",
            "treat the file as damaged or hostile; export the model again",
        )
    if said.checker and not subject.trouble and not any(words in said.checker for words in _TOLD_ELSEWHERE):
        hint = (
            "other runtimes may refuse it; export the model again with a current exporter"
            if subject.load.ok
            else "export the model again, or mend the part that the message names"
        )
        yield Finding(subject.severity, "onnx-invalid", subject.name, plain(said.checker), hint)
