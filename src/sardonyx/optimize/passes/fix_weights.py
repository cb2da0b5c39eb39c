"""Replaces weights that are listed as inputs, and so could be given by a caller, with weights that are fixed."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._rewrite import Borrowed

# Below this IR version every initializer had to be listed as an input.
OPTIONAL = 4


class FixWeights(Borrowed):
    """Replaces weights that are listed as inputs, and so could be given by a caller, with weights that are fixed."""

    order = 5
    what = "weights can no longer be given as inputs, so they can be folded"

    def apply(self, model: ir.Model) -> None:
        graph = model.graph
        if not any(graph.inputs[place].name in graph.initializers for place in range(len(graph.inputs))):
            return
        forced = int(model.ir_version) < OPTIONAL
        if forced:
            model.ir_version = OPTIONAL
        kept = [
            value for value in graph.inputs if not (value.name in graph.initializers and (forced or _weight(value)))
        ]
        graph.inputs[:] = kept

    def count(self, model: ir.Model) -> int:
        return len(model.graph.inputs)

    def refusals(self, model: ir.Model) -> list[tuple[str, str]]:
        return [
            (value.name or "", "a single number may be a setting that callers give")
            for value in model.graph.inputs
            if value.name in model.graph.initializers
        ]


def _weight(value: ir.Value) -> bool:
    return value.const_value is not None and value.const_value.size > 1
