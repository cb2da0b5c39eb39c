"""The versions that a model says it is written in, brought down to what onnxruntime loads."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from sardonyx import runtime
from sardonyx.errors import InputError


def fit_runtime(model: ir.Model, limits: runtime.Limits | None = None) -> list[str]:
    """Stamps the model with versions that the runtime loads, where no operator changes its meaning. Says what it did."""
    limits = limits or runtime.limits()
    stamps = [
        (scope, domain, version, newest)
        for scope in (model.graph, *model.functions.values())
        for domain, newest in (("", limits.opset), ("ai.onnx", limits.opset), ("ai.onnx.ml", limits.ml_opset))
        if (version := scope.opset_imports.get(domain, 0)) > newest
    ]
    for scope, domain, version, newest in stamps:
        newer = sorted(_newer_operators(scope, domain, version, newest))
        if newer:
            raise InputError(
                f"onnxruntime {limits.release} ends at opset {newest} of '{domain or 'ai.onnx'}', and {', '.join(newer)} of "
                f"opset {version} may mean something else there",
                hint=f"export the model again at opset {newest} or lower, or use a newer onnxruntime",
            )
    done = []
    if model.ir_version is None or model.ir_version > limits.ir_version:
        done.append(f"IR version {model.ir_version} -> {limits.ir_version}")
        model.ir_version = limits.ir_version
    for scope, domain, version, newest in stamps:
        done.append(f"opset {version} -> {newest} of '{domain or 'ai.onnx'}': no operator changed in between")
        scope.opset_imports[domain] = newest
    return done


def _newer_operators(scope: ir.Graph | ir.Function, domain: str, version: int, newest: int) -> set[str]:
    """Operators whose definition at `version` is newer than `newest`, so that a new stamp would change their meaning."""
    domain = "" if domain == "ai.onnx" else domain  # as onnx_ir names it in nodes
    used = {node.op_type for node in scope.all_nodes() if node.domain == domain}
    # What changed in an opset that the installed onnx has not heard of, nobody here can say.
    unheard = version > (onnx.defs.onnx_ml_opset_version() if domain else onnx.defs.onnx_opset_version())
    return {name for name in used if unheard or _since(name, domain, version) > newest}


def _since(name: str, domain: str, version: int) -> int:
    try:
        return int(onnx.defs.get_schema(name, version, domain).since_version)
    except onnx.defs.SchemaError:
        return 0
