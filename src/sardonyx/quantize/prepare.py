"""The float model made ready: batch norms folded, weights in initializers, every node named, an opset that has channels."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx_ir.passes import common as passes

from sardonyx.errors import InputError, RuntimeRefused, SardonyxError
from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.run.bounded import load
from sardonyx.run.session import BYTES_AT_MOST, Settings, options, plain
from sardonyx.signature import Array

# From this opset on QuantizeLinear takes a scale per channel.
PER_CHANNEL_OPSET = 13
# What says that somebody has quantised the model before.
QUANTIZED = frozenset((
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger",
    "ConvInteger", "MatMulNBits", "QAttention", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "DynamicQuantizeLSTM",
))  # fmt: skip

log = logging.getLogger(__name__)


def prepared(model: Model) -> Model:
    """An equal model that quantises well; the given one stays as it is."""
    _refuse_quantized(model)
    if model.weight_bytes() > BYTES_AT_MOST:
        raise InputError(
            f"the model holds {model.weight_bytes()} bytes of weights, and quantize takes at most {BYTES_AT_MOST}",
            hint="quantize the parts of the model one by one",
        )
    proto = _inside(model)
    ready = Model.from_proto(_folded(_upgraded(proto)))
    passes.LiftConstantsToInitializersPass(lift_all_constants=True)(ready.ir)
    passes.RemoveUnusedNodesPass()(ready.ir)
    _name_nodes(ready.ir)
    return ready


def copied(model: Model) -> Model:
    """A model of its own that shares no node with the given one."""
    return Model(model.ir.clone())


def float_nodes(model: Model) -> list[ir.Node]:
    """The nodes of the main graph that multiply by weights: what every scheme is about."""
    return [node for node in model.ir.graph if is_weighted(node)]


def is_weighted(node: ir.Node) -> bool:
    """Whether the node is a convolution or a product whose second factor is a constant float32 matrix."""
    if node.op_type not in ("Conv", "MatMul", "Gemm") or node.domain not in ("", "ai.onnx"):
        return False
    weight = constant(node.inputs[1])
    return weight is not None and weight.dtype == ir.DataType.FLOAT and len(weight.shape) >= 2


def weights_of(node: ir.Node) -> Array:
    """The weights of a node that has them."""
    tensor = constant(node.inputs[1])
    assert tensor is not None, "asked only of nodes with weights"
    array: Array = tensor.numpy()
    return array


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of an initializer that no caller can replace."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value


def initializer(graph: ir.Graph, name: str, array: Array) -> ir.Value:
    """The constant of that name in the graph, made of the array where there is none yet."""
    if name not in graph.initializers:
        value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
        value.shape, value.dtype = ir.Shape(array.shape), ir.DataType.from_numpy(array.dtype)
        graph.register_initializer(value)
    return graph.initializers[name]


def _refuse_quantized(model: Model) -> None:
    found = Counter(node.op_type for node in _nodes(model.ir) if node.op_type in QUANTIZED)
    if found:
        what = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
        raise InputError(f"the model is already quantised: it has {what}", hint="give the float model it was made from")


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    for scope in (model.graph, *model.functions.values()):
        yield from scope.all_nodes()


def _inside(model: Model) -> onnx.ModelProto:
    own = model.ir.clone()
    passes.InlinePass()(own)
    ir.external_data.load_to_model(own)
    return Model(own).to_proto()


def _upgraded(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model at an opset that can scale per channel, or as it is where onnx does not know the way up."""
    version = next((item.version for item in proto.opset_import if item.domain in ("", "ai.onnx")), 0)
    if version >= PER_CHANNEL_OPSET:
        return proto
    try:
        upgraded = onnx.version_converter.convert_version(proto, PER_CHANNEL_OPSET)
        load(upgraded.SerializeToString(), options(Settings(optimize=False)))
    except Exception as error:  # noqa: BLE001  the converter raises whatever it likes
        log.info("the model stays at opset %s: %s", version, error)
        return proto
    return upgraded


def _folded(proto: onnx.ModelProto) -> onnx.ModelProto:
    """What onnxruntime makes of the model with its portable rewrites: constants and batch norms folded."""
    with temporary_folder() as scratch:
        path = scratch / "folded.onnx"
        chosen = options(Settings())
        chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        chosen.optimized_model_filepath = str(path)
        try:
            load(proto.SerializeToString(), chosen)
        except SardonyxError:  # the time is up
            raise
        except Exception as error:
            raise RuntimeRefused(
                f"onnxruntime does not load the model: {plain(error)}", hint="sardonyx check says what is wrong with it"
            ) from error
        folded = onnx.load(path)
    used = {node.domain for node in folded.graph.node} | {""}
    kept = [item for item in folded.opset_import if item.domain in used or folded.functions]
    del folded.opset_import[:]
    folded.opset_import.extend(kept)
    folded.metadata_props.extend(item for item in proto.metadata_props)
    return onnx.shape_inference.infer_shapes(folded)


def _name_nodes(model: ir.Model) -> None:
    """Gives every node a name of its own, by which plans and reports speak of it."""
    taken: set[str] = set()
    for index, node in enumerate(model.graph):
        name = node.name or f"{node.op_type}_{index}"
        while name in taken:
            name += "_"
        node.name = name
        taken.add(name)
