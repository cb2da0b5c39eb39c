"""Partial runs: any tensor of a model, computed by the steps that it needs and no more."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from sardonyx.compare.flow import Flow
from sardonyx.errors import RuntimeRefused
from sardonyx.run.bounded import compute, load
from sardonyx.run.session import Settings, options, plain
from sardonyx.signature import Array, Arrays

# Weights above this are fed as inputs, from where they lie: the runtime then makes no copy of its own.
EMBEDDED = 1 << 12
_FED = frozenset(np.dtype(name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
))  # fmt: skip


class Trace:
    """One model on one set of inputs. Gives any tensors by name, a few at a time, and counts the runs it takes."""

    def __init__(self, flow: Flow, inputs: Mapping[str, Array]) -> None:
        self.flow = flow
        self.inputs = dict(inputs)
        self.runs = 0
        self._types: dict[str, str] | None = None

    def fetch(self, targets: Iterable[str], given: Mapping[str, Array] | None = None) -> Arrays:
        """The tensors, computed from the inputs, or from `given` tensors as far as they reach."""
        known = {**self.inputs, **(given or {})}
        wanted = list(dict.fromkeys(targets))
        found = {name: known[name] for name in wanted if name in known}
        found |= {
            name: numpy_of(self.flow.weights[name])
            for name in wanted
            if name in self.flow.weights and name not in found
        }
        missing = [name for name in wanted if name not in found]
        if missing:
            proto, feeds = assemble(self.flow, missing, known)
            self.runs += 1
            found |= execute(proto, feeds, missing)
        return found

    def settle(self) -> None:
        """Replaces every If by the branch that these inputs take, so that what lies inside can be looked at."""
        while branches := self.flow.branches():
            conditions = self.fetch(step.inputs[0] for step in branches)
            taken = {step.outputs[0]: bool(conditions[step.inputs[0]].reshape(-1)[0]) for step in branches}
            self.flow = self.flow.take(taken)
            self.forget()

    def forget(self) -> None:
        """To be called when the flow is another."""
        self._types = None

    @property
    def types(self) -> dict[str, str]:
        """Tensor to the runtime's name for its type, as `tensor(float)`, of every tensor that a step makes."""
        if self._types is None:
            proto, _ = assemble(self.flow, self.flow.tensors, self.inputs)
            self._types = {output.name: output.type for output in open_session(proto).get_outputs()}
        return self._types

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor, from one run that keeps none of them."""
        arrays = [name for name, kind in self.types.items() if kind.startswith("tensor(")]
        proto, feeds = assemble(self.flow, arrays, self.inputs)
        ends = [f"{name}@shape" for name in arrays]
        proto.graph.node.extend(
            onnx.NodeProto(op_type="Shape", input=[n], output=[e]) for n, e in zip(arrays, ends, strict=True)
        )
        _set_outputs(proto, ends)
        self.runs += 1
        found = execute(proto, feeds, ends)
        return {name: tuple(map(int, found[end])) for name, end in zip(arrays, ends, strict=True)}

    def sizes(self) -> dict[str, int]:
        """The bytes of every tensor."""
        return {name: tensor_bytes(shape, self.types[name]) for name, shape in self.shapes().items()}


def assemble(flow: Flow, targets: Sequence[str], known: Mapping[str, Array]) -> tuple[onnx.ModelProto, Arrays]:
    """A model of the steps that make the targets from the known tensors, and everything to feed it."""
    indices = flow.needed(targets, known)
    reads = dict.fromkeys(name for index in indices for name in flow.steps[index].reads)
    feeds = {name: known[name] for name in reads if name in known}
    proto = onnx.ModelProto(ir_version=flow.ir_version, producer_name="sardonyx")
    proto.opset_import.extend(
        onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in flow.opsets.items()
    )
    proto.graph.name = "part"
    for name in reads:
        if name not in feeds and name in flow.weights:
            _add_weight(proto.graph, feeds, name, flow.weights[name])
    # Sizes of the weights are stated, for rules that need them; sizes of the inputs are not, so that others may follow.
    proto.graph.input.extend(_value_info(name, array, fixed=name in flow.weights) for name, array in feeds.items())
    proto.graph.node.extend(flow.steps[index].proto for index in indices)
    _set_outputs(proto, targets)
    return proto, feeds


def open_session(proto: onnx.ModelProto) -> ort.InferenceSession:
    """A session that runs the graph as it is written, and holds each tensor no longer than it is needed."""
    chosen = options(Settings(optimize=False))
    chosen.enable_mem_pattern = False
    # As the steps are listed, and Shape as soon as it can be: the default order may keep every tensor to the end.
    chosen.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    try:
        return load(proto.SerializeToString(), chosen)
    except Exception as error:
        raise RuntimeRefused(
            f"a part of the model does not load: {plain(error)}", hint="run sardonyx check on it"
        ) from error


def execute(proto: onnx.ModelProto, feeds: Mapping[str, Array], targets: Sequence[str]) -> Arrays:
    """The targets, from a session that lives for this one run."""
    found = dict(zip(targets, run_session(open_session(proto), feeds, targets), strict=True))
    release()
    return found


def release() -> None:
    """Gives freed memory back to the system, where the C library can: it would keep it for the next allocation."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def run_session(session: ort.InferenceSession, feeds: Mapping[str, Array], targets: Sequence[str]) -> list[Any]:
    try:
        ready = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        return compute(session, list(targets), ready)
    except Exception as error:
        raise RuntimeRefused(f"a part of the model fails: {plain(error)}", hint="run sardonyx check on it") from error


def numpy_of(tensor: ir.TensorProtocol) -> Array:
    return np.asarray(tensor.numpy())


def tensor_bytes(shape: Iterable[int], kind: str) -> int:
    """The size of a tensor of the runtime's type `kind`."""
    return math.prod(shape) * _BYTES.get(kind.removeprefix("tensor(").removesuffix(")"), 4)


def _add_weight(graph: onnx.GraphProto, feeds: dict[str, Any], name: str, tensor: ir.TensorProtocol) -> None:
    if tensor.nbytes > EMBEDDED and tensor.dtype not in _PACKED and (array := numpy_of(tensor)).dtype in _FED:
        feeds[name] = array
        return
    written: onnx.TensorProto = ir.serde.serialize_tensor(tensor)
    if written.data_location == onnx.TensorProto.EXTERNAL:
        written = ir.serde.serialize_tensor(ir.Tensor(numpy_of(tensor), dtype=tensor.dtype))
    written.name = name
    graph.initializer.append(written)


_BYTES = {
    "double": 8, "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
_PACKED = (ir.DataType.BFLOAT16, ir.DataType.STRING, ir.DataType.INT4, ir.DataType.UINT4)


def _value_info(name: str, array: Array, *, fixed: bool) -> onnx.ValueInfoProto:
    kind = onnx.TensorProto.STRING if array.dtype.kind in "OSU" else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape if fixed else [None] * array.ndim)


def _set_outputs(proto: onnx.ModelProto, names: Iterable[str]) -> None:
    del proto.graph.output[:]
    # Without a type: the runtime infers it.
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
