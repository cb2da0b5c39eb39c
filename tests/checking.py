"""A subject for one check at a time: onnx is asked in this process, and the end of the trial load is chosen."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import onnx
from onnx import parser

from sardonyx import external, runtime
from sardonyx.check._examine import infer
from sardonyx.check._subject import Budget, Examination, Load, Subject
from sardonyx.report import Finding

LOADED = Load("loaded", seconds=0.01)
REFUSED = Load("refused", "it was refused")
HEAD = '<ir_version: 8, opset_import: ["": 17]>'


def subject(
    model: str | onnx.ModelProto, *, load: Load = LOADED, ort: str | None = None, path: Path = Path("model.onnx")
) -> Subject:
    """The model, given as a message or as ONNX text, whose trial load has ended as `load` says."""
    proto = parser.parse_model(model) if isinstance(model, str) else model
    return Subject(
        path=path,
        proto=proto,
        limits=runtime.limits(ort),
        asked_release=ort,
        budget=Budget.of(proto.ByteSize(), len(proto.graph.node), None),
        size=proto.ByteSize(),
        trouble=tuple(external.findings(proto, path.parent)),
        _load=lambda: load,
        _examine=lambda: _examination(proto),
    )


def findings(check: str, of: Subject) -> list[Finding]:
    """What the check of this name says."""
    return list(import_module(f"sardonyx.check.{check}").findings(of))


def codes(check: str, of: Subject) -> list[str]:
    return [finding.code for finding in findings(check, of)]


def _examination(proto: onnx.ModelProto) -> Examination:
    typed, shapes = infer(proto)
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        return Examination(str(error), shapes, typed)
    return Examination(None, shapes, typed)
