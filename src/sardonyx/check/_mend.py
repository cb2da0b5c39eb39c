"""Child process: writes a mended copy of a model.

Request: `path`, `out`, `opset` (the opset to convert to, or null for new stamps alone) and `release` (whose limits to keep).
Answer: `done`, a list of what was changed, and `reason` where nothing could be.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import onnx_ir as ir

from sardonyx import history, runtime
from sardonyx.check._places import domain_of
from sardonyx.check._releases import since
from sardonyx.errors import InputError, SardonyxError
from sardonyx.model import Model
from sardonyx.proto import read_proto
from sardonyx.stamp import fit_runtime


def main() -> None:
    request = json.load(sys.stdin)
    answer: dict[str, object]
    try:
        done = mend(Path(request["path"]), Path(request["out"]), request["opset"], request["release"])
        answer = {"done": done, "reason": ""}
    except SardonyxError as error:
        answer = {"done": [], "reason": error.message}
    Path(request["answer"]).write_text(json.dumps(answer))


def mend(path: Path, out: Path, opset: int | None, release: str | None) -> list[str]:
    """Writes the model with one import a domain, the wanted opset and versions that the release loads; says what it did."""
    model = Model.load(path)
    done = _single_imports(model, path)
    if opset is not None and opset != model.opset:
        done.append(_raised(model, opset))
    done += fit_runtime(model.ir, runtime.limits(release))
    if done:
        model.record(history.step("check", options={"fix": True}, done=done))
    model.save(out)
    return done


def _single_imports(model: Model, path: Path) -> list[str]:
    """Keeps the last import of each domain, which is the one that onnxruntime takes."""
    entries = [(domain_of(entry.domain), entry.version) for entry in read_proto(path).opset_import]
    counts = Counter(domain for domain, _ in entries)
    for domain, version in entries:
        if counts[domain] > 1:
            model.ir.opset_imports.pop("ai.onnx" if domain == "" else domain, None)
            model.ir.opset_imports[domain] = version
    repeated = {domain: version for domain, version in entries if counts[domain] > 1}
    return [f"one import of '{name or 'ai.onnx'}' instead of {counts[name]}, {repeated[name]}" for name in repeated]


def _raised(model: Model, opset: int) -> str:
    """Brings the model to `opset`: by a new stamp where no operator changed in between, else by the converters."""
    before = model.opset
    if not _changed(model.ir, before, opset):
        for scope in (model.ir.graph, *model.ir.functions.values()):
            scope.opset_imports[""] = opset
        return f"opset {before} -> {opset}: no operator changed in between"
    from onnxscript import version_converter

    version_converter.convert_version(model.ir, opset, fallback=True)
    if model.opset != opset:
        raise InputError(f"neither onnxscript nor onnx can convert the model from opset {before} to {opset}")
    return f"opset {before} -> {opset}: converted by onnxscript and onnx"


def _changed(model: ir.Model, before: int, after: int) -> set[str]:
    """Operators that both opsets define, differently."""
    scopes = (model.graph, *model.functions.values())
    used = {node.op_type for scope in scopes for node in scope.all_nodes() if node.domain == ""}
    return {name for name in used if 0 != since(name, "", before) != since(name, "", after)}


if __name__ == "__main__":
    main()
