"""LoRA: small adapters learn in place of the weights of linear and convolutional layers, and merge back into them.

A weight W of `rows` by `columns` (a convolution's other axes flattened) becomes W + B A, with A `rank` by `columns` and B
`rows` by `rank`. B starts at zero, so the network starts as it was. Only A and B are trained and remembered by the optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx.build import Builder, op
from sardonyx.errors import InputError
from sardonyx.model import Model
from sardonyx.training import parameters

# The input that holds the weight. A convolution may be of any dimension.
LAYERS = {"MatMul": 1, "Gemm": 1, "Conv": 1}
A, B = ".lora_a", ".lora_b"
_MERGED = ".lora_merged"


def adapted(
    model: Model, *, rank: int, only: Sequence[str] | None = None, skip: Sequence[str] = (), seed: int = 0
) -> Model:
    """A copy with an adapter on every linear and convolutional weight, or on those that `only` matches; none on `skip`."""
    work = Model(model.ir.clone(), path=model.path)
    parameters.lift(work)
    build = Builder(work.ir.graph, work.opset, prefix="lora/")
    random = np.random.default_rng(seed)
    names = [name for name in adaptable(work) if only is None or parameters._matches(name, only)]
    names = [name for name in names if not parameters._matches(name, skip)]
    if not names:
        raise InputError("no layer can take an adapter", hint="LoRA adapts the weights of MatMul, Gemm and Conv")
    for name in names:
        _adapt(build, work.ir.graph.initializers[name], rank, random)
    passes.TopologicalSortPass()(work.ir)
    return work


def merge(model: Model) -> int:
    """Folds every adapter of a model whose parameters are initializers into its weight. Gives how many there were."""
    graph = model.ir.graph
    merged = [value for node in graph for value in node.outputs if (value.name or "").endswith(_MERGED)]
    for value in merged:
        name = (value.name or "").removesuffix(_MERGED)
        weight, down, up = (_array(graph.initializers[part]) for part in (name, f"{name}{A}", f"{name}{B}"))
        value_of = graph.initializers[name]
        value_of.const_value = ir.tensor(weight + (up @ down).reshape(weight.shape), name=name)
        ir.convenience.replace_all_uses_with(value, value_of)
    passes.RemoveUnusedNodesPass()(model.ir)
    return len(merged)


def adaptable(model: Model) -> list[str]:
    """The weights that a layer multiplies by, of two axes or more, in the order of the model."""
    found = {
        value.name
        for node in model.ir.graph
        if node.op_type in LAYERS and len(node.inputs) > 1
        for value in [node.inputs[LAYERS[node.op_type]]]
        if value is not None and value.is_initializer() and value.shape is not None and len(value.shape) > 1
    }
    return [name for name in model.ir.graph.initializers if name in found]


def _adapt(build: Builder, weight: ir.Value, rank: int, random: np.random.Generator) -> None:
    values = _array(weight)
    rows, columns = values.shape[0], int(np.prod(values.shape[1:]))
    bound = 1 / np.sqrt(columns)
    down = random.uniform(-bound, bound, (rank, columns)).astype(values.dtype)
    parts = [
        _initializer(build, f"{weight.name}{A}", down),
        _initializer(build, f"{weight.name}{B}", np.zeros((rows, rank), values.dtype)),
    ]
    uses = list(weight.uses())
    product = op("MatMul", build.expr(parts[1]), build.expr(parts[0]))
    shaped = product if values.ndim == 2 else op("Reshape", product, list(values.shape))
    merged = build.expr(weight) + shaped
    merged.value.name = f"{weight.name}{_MERGED}"
    for use in uses:
        use.node.replace_input_with(use.idx, merged.value)


def _initializer(build: Builder, name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.floating]]) -> ir.Value:
    tensor = ir.tensor(values, name=name)
    value = ir.val(name, tensor.dtype, values.shape, const_value=tensor)
    build.graph.register_initializer(value)
    return value


def _array(value: ir.Value) -> np.ndarray[tuple[int, ...], np.dtype[np.floating]]:
    assert value.const_value is not None
    return np.array(value.const_value.numpy())
