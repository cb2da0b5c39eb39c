"""What the workers open: the networks as ONNX, and what each library makes of them, in build/train.

python benchmarks/_train_artifacts.py cnn     # makes them anew
"""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KEPT = Path(__file__).parent.parent / "build" / "train"
BATCH, CLASSES = 64, 10
OPTIMIZERS = ("sgd", "adamw")
Array = np.ndarray[Any, Any]


def folder(network: str) -> Path:
    return KEPT / network


def batch(network: str) -> tuple[Array, Array]:
    with np.load(folder(network) / "batch.npz") as found:
        return found["x"], found["labels"]


def sardonyx(network: str, optimizer: str) -> Path:
    return folder(network) / f"sardonyx-{optimizer}"


def make(network: str) -> None:
    """Exports the network, and writes Sardonyx's artifacts as the code of today makes them."""
    import _train_networks

    from sardonyx.model import Model
    from sardonyx.training import artifacts
    from sardonyx.training.graphs import Rule

    folder(network).mkdir(parents=True, exist_ok=True)
    x, labels = _train_networks.NETWORKS[network].batch()
    np.savez(folder(network) / "batch.npz", x=x, labels=labels)
    module = _train_networks.made(network)
    onnx.save(_exported(module, x, dynamic=True), folder(network) / "network.onnx")
    # onnxruntime-training differentiates LayerNormalization only where it has found it itself, in simpler operators.
    onnx.save(_exported(module, x, dynamic=True, opset=16), folder(network) / "older.onnx")
    onnx.save(_static(_exported(module, x, dynamic=False)), folder(network) / "static.onnx")
    for optimizer in OPTIMIZERS:
        artifacts.generate_artifacts(
            Model.load(folder(network) / "network.onnx"), loss="cross_entropy", optimizer=Rule(optimizer),
            artifact_directory=sardonyx(network, optimizer), batch_norm="torch",
        )  # fmt: skip


def _exported(module: Any, x: Array, *, dynamic: bool, opset: int = 17) -> onnx.ModelProto:
    import torch

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (torch.tensor(x),), stream, dynamo=False, opset_version=opset, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}} if dynamic else None,
            training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
        )  # fmt: skip
    model = onnx.load_from_string(stream.getvalue())
    _without_dropout(model.graph)
    return model


def _without_dropout(graph: onnx.GraphProto) -> None:
    """Takes out the layers that drop nothing, which not every library can differentiate."""
    for node in [node for node in graph.node if node.op_type == "Dropout"]:
        graph.node.remove(node)
        for reader in graph.node:
            reader.input[:] = [node.input[0] if name == node.output[0] else name for name in reader.input]


def _static(model: onnx.ModelProto) -> onnx.ModelProto:
    """With sizes computed, and Flatten as the Reshape that it is."""
    import onnx_ir as ir
    import onnx_ir.passes.common as passes
    from onnxscript import optimizer

    opened = ir.from_proto(model)
    optimizer.fold_constants(opened, onnx_shape_inference=True, should_fold=_steering)
    passes.RemoveUnusedNodesPass()(opened)
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(opened)
    found = ir.to_proto(opened)
    for node in found.graph.node:
        if node.op_type == "Flatten":
            name = f"{node.name}_shape"
            found.graph.initializer.append(numpy_helper.from_array(np.array([BATCH, -1]), name))
            node.CopyFrom(helper.make_node("Reshape", [node.input[0], name], node.output, name=node.name))
    return found


def _steering(node: Any) -> bool:
    """Whether the node gives sizes or lone numbers, and no weights."""
    kinds = [(value.dtype, value.shape) for value in node.outputs]
    return all(dtype is not None and (not dtype.is_floating_point() or shape == ()) for dtype, shape in kinds)


def trained(model: onnx.ModelProto) -> list[str]:
    """The parameters: tensors that bear a name of the network's."""
    return [
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and "running_" not in tensor.name and "." in tensor.name
    ]


def as_inputs(model: onnx.ModelProto, names: list[str]) -> dict[str, Array]:
    """Turns initializers into inputs, and gives their values."""
    values = {}
    for tensor in [each for each in model.graph.initializer if each.name in names]:
        values[tensor.name] = np.ascontiguousarray(numpy_helper.to_array(tensor))
        model.graph.initializer.remove(tensor)
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    return values


def with_loss(network: str, *, written_out: bool) -> onnx.ModelProto:
    """The network of fixed sizes with its loss: ONNX's operator, or arithmetic on labels that are one-hot."""
    model = onnx.load(folder(network) / "static.onnx")
    graph = model.graph
    if written_out:
        graph.input.append(helper.make_tensor_value_info("hot", TensorProto.FLOAT, [BATCH, CLASSES]))
        graph.initializer.append(numpy_helper.from_array(np.array([0, 1]), "both"))
        graph.initializer.append(numpy_helper.from_array(np.array(1 / BATCH, np.float32), "share"))
        steps = [
            ("Softmax", ["y"], "p", {"axis": 1}), ("Log", ["p"], "l", {}), ("Mul", ["l", "hot"], "chosen", {}),
            ("ReduceSum", ["chosen", "both"], "total", {"keepdims": 0}), ("Neg", ["total"], "negative", {}),
            ("Mul", ["negative", "share"], "loss", {}),
        ]  # fmt: skip
    else:
        graph.input.append(helper.make_tensor_value_info("labels", TensorProto.INT64, [BATCH]))
        steps = [("SoftmaxCrossEntropyLoss", ["y", "labels"], "loss", {})]
    for kind, inputs, output, attributes in steps:
        graph.node.append(helper.make_node(kind, inputs, [output], name=f"loss_{output}", **attributes))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))
    return onnx.shape_inference.infer_shapes(model)


if __name__ == "__main__":
    make(*sys.argv[1:])
