"""ONNX models: already converted, so they are mended and upgraded."""

from __future__ import annotations

from sardonyx.sources._recognise import Subject

REQUIRES = None
SAFER = "an ONNX model is never a pickle"
# A ModelProto starts with field 1, the IR version. TensorFlow's SavedModel starts alike, with a version of 1.
IR_VERSION = b"\x08"
IR_VERSIONS = range(3, 64)
# What may come next: producer, domain, version, text, graph, imports or metadata, each by its field and wire type.
NEXT = frozenset(b"\x12\x1a\x22\x28\x32\x3a\x42\x72")


def accepts(subject: Subject) -> str | None:
    """'onnx' for a file whose bytes start like a ModelProto, or whose name says so, and for a ModelProto."""
    if subject.path is None:
        return "onnx" if "onnx" in subject.modules and hasattr(subject.value, "SerializeToString") else None
    if not subject.path.is_file():
        return None
    head = subject.head
    known = head[:1] == IR_VERSION and len(head) > 2 and head[1] in IR_VERSIONS and head[2] in NEXT
    return "onnx" if known or subject.path.suffix == ".onnx" else None


def routes(form: str) -> tuple[str, ...]:  # noqa: ARG001  there is one form
    return ("as-is", "upgrade")
