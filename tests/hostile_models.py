"""Models that crash, hang or exhaust whatever opens or runs them, as bytes: for the tests that show where that ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

INT_MIN, TOO_MUCH = -(2**31), 2**31


def gather_nd() -> onnx.ModelProto:
    """An attribute that points far before the shape of its input."""
    node = h.make_node("GatherND", ["x", "i"], ["y"], batch_dims=INT_MIN)
    return _model([node], [("x", T.FLOAT, [2, 2])], [("y", T.FLOAT, None)], {"i": np.array([[0, 1]], np.int64)})


def layer_norm() -> onnx.ModelProto:
    node = h.make_node("LayerNormalization", ["x", "s"], ["y"], axis=TOO_MUCH)
    return _model([node], [("x", T.FLOAT, [2, 4])], [("y", T.FLOAT, [2, 4])], {"s": np.ones(4, np.float32)})


def attention() -> onnx.ModelProto:
    """Attention that divides its width by no heads."""
    node = h.make_node("Attention", ["q", "q", "q"], ["y"], q_num_heads=0, kv_num_heads=0)
    return _model([node], [("q", T.FLOAT, [1, 2, 4])], [("y", T.FLOAT, None)], {}, opset=23)


def split_to_sequence() -> onnx.ModelProto:
    """A split into pieces of length zero."""
    nodes = [
        h.make_node("SplitToSequence", ["x", "zero"], ["s"], axis=0),
        h.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    return _model(nodes, [("x", T.FLOAT, [4, 2])], [("y", T.FLOAT, None)], {"zero": np.array(0, np.int64)})


def negative_dimension() -> onnx.ModelProto:
    return _model([h.make_node("Relu", ["x"], ["y"])], [("x", T.FLOAT, [-1, 2])], [("y", T.FLOAT, [-1, 2])], {})


def einsum() -> onnx.ModelProto:
    """An equation that is long, and of which shape inference is slower the longer it is."""
    node = h.make_node("Einsum", ["x", "x"], ["y"], equation="." * 3_000_000 + "," + "." * 3_000_000)
    return _model([node], [("x", T.FLOAT, [2, 2])], [("y", T.FLOAT, None)], {})


def endless() -> onnx.ModelProto:
    """A loop whose condition stays true, and which has no count."""
    body = h.make_graph(
        [h.make_node("Identity", ["on"], ["go"]), h.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            h.make_tensor_value_info("n", T.INT64, []),
            h.make_tensor_value_info("on", T.BOOL, []),
            h.make_tensor_value_info("v", T.FLOAT, [2]),
        ],
        [h.make_tensor_value_info("go", T.BOOL, []), h.make_tensor_value_info("w", T.FLOAT, [2])],
    )  # fmt: skip
    node = h.make_node("Loop", ["", "true", "x"], ["y"], body=body)
    return _model([node], [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])], {"true": np.array(True)})


def memory() -> onnx.ModelProto:
    """A few bytes that ask for four tebibytes."""
    node = h.make_node("Expand", ["x", "shape"], ["y"])
    shape = np.array([1 << 20, 1 << 20], np.int64)
    return _model([node], [("x", T.FLOAT, [1])], [("y", T.FLOAT, None)], {"shape": shape})


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "gather-nd": gather_nd,
    "layer-norm": layer_norm,
    "attention": attention,
    "split-to-sequence": split_to_sequence,
    "negative-dimension": negative_dimension,
    "einsum": einsum,
    "endless": endless,
    "memory": memory,
}


def write(name: str, folder: Path) -> Path:
    """The model as a file of that name."""
    path = folder / f"{name}.onnx"
    path.write_bytes(MODELS[name]().SerializeToString())
    return path


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[tuple[str, int, list[int] | None]],
    outputs: list[tuple[str, int, list[int] | None]],
    constants: dict[str, np.ndarray],
    opset: int = 20,
) -> onnx.ModelProto:
    graph = h.make_graph(
        nodes,
        "hostile",
        [h.make_tensor_value_info(*value) for value in inputs],
        [h.make_tensor_value_info(*value) for value in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10)
