"""Strict shape inference by onnx."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sardonyx.check._subject import Subject, plain
from sardonyx.report import Finding

CODES = {
    "shape-inference": "The shapes or types in the model contradict one another.",
    "shape-inference-crashed": "onnx's shape inference crashed, hung or ran out of memory on the model.",
}
# Said of a tensor whose bytes were left out on purpose, or told by another check, which names the cause.
_NOT_A_FAULT = (
    "Cannot parse data from external tensors", "expected to have type but instead is null", "No opset import for domain",
    "No Op registered for", "topologically sorted",
)  # fmt: skip


def findings(subject: Subject) -> Iterator[Finding]:
    """Where onnx's strict shape inference fails."""
    said = subject.examination
    if said.failed_in == "shapes" and said.failure is not None:
        yield Finding(
            subject.severity,
            "shape-inference-crashed",
            subject.name,
            f"onnx's shape inference did not survive the model: {said.failure.reason}",
            "look for constants that make a tensor huge, and for functions that call one another without end",
        )
    if said.shapes is None or said.shapes == said.checker or any(words in said.shapes for words in _NOT_A_FAULT):
        return
    for where, message in _errors(said.shapes):
        yield Finding(
            subject.severity,
            "shape-inference",
            where or subject.name,
            message,
            "correct the declared shape or the operator's attributes, or export the model again",
        )


def _errors(text: str) -> Iterator[tuple[str, str]]:
    """onnx's messages one by one, as (node, message): '(op_type:Add, node name: n): [ShapeInferenceError] ...'."""
    body = (
        text.replace("[ShapeInferenceError]", "").replace("[TypeInferenceError]", "").replace("Inference error(s):", "")
    )
    for line in filter(None, map(str.strip, re.split(r"\n|(?=\(op_type:)", body))):
        match = re.match(r"\(op_type:(?P<op>[^,)]+)(?:, node name: (?P<name>[^)]*))?\): ?(?P<message>.*)", line)
        if match is None:
            yield "", plain(line)
        else:
            name = f"node '{match['name']}'" if match["name"] else "a node"
            yield f"{name} ({match['op']})", plain(match["message"])
