"""Certifies gradients: against central differences in float64, against PyTorch, and once more for the second order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper
from onnx.reference import ReferenceEvaluator

from gradient_reference import REPLACEMENTS
from sardonyx.gradient.engine import differentiate
from sardonyx.model import Model

Arrays = dict[str, np.ndarray[Any, Any]]
STEP = 1e-6
# Central differences of a smooth function in float64 err by about STEP**2 plus rounding over STEP: near 1e-9.
TOLERANCE = 2e-7
# Attributes are single numbers even in a float64 model.
TORCH_TOLERANCE = 1e-6
# Float32, over graphs of some dozen nodes.
SINGLE_TOLERANCE = 2e-4
OPSET = 24
# onnxruntime computes these in float32 whatever comes in, or refuses float64 only while it runs.
ROUGH = {"Gelu", "Shrink", "RNN", "GRU", "LSTM"}


class Const:
    """A value that the case gives as an initializer."""

    def __init__(self, *values: Any, dtype: Any = np.int64) -> None:
        self.array = np.asarray(values, dtype)


def scalar(value: Any, dtype: Any = np.int64) -> Const:
    made = Const()
    made.array = np.asarray(value, dtype)
    return made


@dataclass(frozen=True)
class Case:
    """One node (or one graph in ONNX text with `double`) with inputs at which its gradient is certified.

    `of`: the outputs that are differentiated. `fixed`: inputs that are not. `sized`: inputs whose sizes are known even where
    the others' are not. `smooth`: whether differences exist there. `single`: ONNX defines the operator for float32 alone.
    """

    op: str
    name: str
    inputs: tuple[Any, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    of: tuple[int, ...] = (0,)
    torch: Callable[..., Any] | None = None
    second: bool = True
    dynamic: bool = True
    text: str = ""
    opset: int = OPSET
    feeds: Arrays = field(default_factory=dict)
    fixed: tuple[int, ...] = ()
    sized: tuple[int, ...] = ()
    smooth: bool = True
    single: bool = False

    @property
    def id(self) -> str:
        return f"{self.op}-{self.name}" if self.name else self.op


_SETTINGS = ("outputs", "of", "torch", "second", "dynamic", "opset", "fixed", "sized", "smooth", "single")


def case(op: str, *inputs: Any, name: str = "", **rest: Any) -> Case:
    """A case of one node: arrays are inputs, `Const` initializers, None is left out; the other keywords are attributes."""
    settings = {key: rest.pop(key) for key in _SETTINGS if key in rest}
    return Case(op, name, inputs, rest, **settings)


def graph(op: str, text: str, *, name: str = "", **rest: Any) -> Case:
    """A case written as a graph, for operators with graphs inside. Arrays are the inputs by name."""
    settings = {key: rest.pop(key) for key in ("torch", "second") if key in rest}
    head = f'<ir_version: 10, opset_import: ["" : {OPSET}]>'
    return Case(op, name, text=f"{head}\n{text}", feeds=rest, **settings)


def values(one: Case) -> Arrays:
    """What the model of the case is fed."""
    if one.text:
        return dict(one.feeds)
    return {f"x{i}": v for i, v in enumerate(one.inputs) if isinstance(v, np.ndarray)}


def wanted(one: Case) -> list[str]:
    """The inputs whose gradients are certified: every float, but those in `fixed`."""
    left_out = {f"x{i}" for i in one.fixed}
    return [n for n, v in values(one).items() if v.dtype.kind == "f" and n not in left_out]


def model(one: Case, *, dtype: Any = np.float64, dynamic: bool = False) -> Model:
    """The case as a model of that precision, with sizes or with a name for every size."""
    if one.text:
        return Model.from_text(one.text if dtype == np.float64 else one.text.replace("double", "float"))
    inputs, initializers = [], []
    for index, given in enumerate(one.inputs):
        if isinstance(given, Const):
            array = given.array.astype(dtype) if given.array.dtype == np.float64 else given.array
            initializers.append(onnx.numpy_helper.from_array(array, f"x{index}"))
        elif given is not None:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype) if given.dtype.kind == "f" else given.dtype)
            named = [f"x{index}d{axis}" for axis in range(given.ndim)]
            shape = named if dynamic and index not in one.sized else given.shape
            inputs.append(helper.make_tensor_value_info(f"x{index}", kind, shape))
    names = ["" if given is None else f"x{i}" for i, given in enumerate(one.inputs)]
    attributes = {k: v for k, v in one.attributes.items() if v is not None}
    node = helper.make_node(one.op, names, [f"y{i}" for i in range(one.outputs)], name="subject", **attributes)
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in one.of]
    made = helper.make_graph([node], "case", inputs, outputs, initializers)
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", one.opset)], ir_version=10)
    return Model.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))


def evaluator(subject: Model) -> Callable[[Arrays], Arrays]:
    """Runs a model on onnxruntime, or on ONNX's reference where onnxruntime has no kernel for float64."""
    proto = subject.to_proto()
    double = any(value.dtype == ir.DataType.DOUBLE for value in subject.ir.graph.inputs)
    if double and any(node.op_type in ROUGH for node in subject.ir.graph):
        return _by_reference(proto)
    try:
        return _by_runtime(proto)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error) or not double:
            raise
        return _by_reference(proto)


def _by_runtime(proto: onnx.ModelProto) -> Callable[[Arrays], Arrays]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    needed = {value.name for value in session.get_inputs()}
    return lambda feeds: dict(
        zip(names, session.run(names, {k: v for k, v in feeds.items() if k in needed}), strict=True)
    )


def _by_reference(proto: onnx.ModelProto) -> Callable[[Arrays], Arrays]:
    names = [value.name for value in proto.graph.output]
    reference = ReferenceEvaluator(proto, new_ops=REPLACEMENTS)
    return lambda feeds: dict(zip(names, map(np.asarray, reference.run(None, feeds)), strict=True))


def difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    """The largest difference, relative to the larger of one and the largest entry."""
    if a.shape != b.shape:
        return float("inf")
    scale = max(1.0, float(np.max(np.abs(b), initial=0)))
    worst = float(np.max(np.abs(a - b), initial=0)) / scale
    return worst if np.isfinite(worst) else float("inf")


def _float_outputs(subject: Model) -> list[str]:
    """Names of the outputs that have a gradient; one of unknown type is the case's subject."""
    return [v.name or "" for v in subject.ir.graph.outputs if v.dtype is None or v.dtype.is_floating_point()]


@dataclass(frozen=True)
class Checked:
    """How far a gradient lies from central differences, the gradient's model, what it was fed and what it gave."""

    error: float
    gradient: Model
    feeds: Arrays
    found: Arrays


def against_differences(subject: Model, feeds: Arrays, wrt: Sequence[str], *, suffix: str = "_grad") -> Checked:
    """Compares the gradient of a random projection of all outputs with differences along random directions."""
    random = np.random.default_rng(0)
    outputs = _float_outputs(subject)
    gradient = differentiate(subject, wrt=wrt, output_gradients=outputs, keep_outputs=False, suffix=suffix)
    run = evaluator(subject)
    plain = run(feeds)
    seeds = {f"{name}{suffix}": np.asarray(random.normal(size=plain[name].shape)) for name in outputs}
    given = {**feeds, **seeds}
    found = evaluator(gradient)(given)

    def projected(changed: Arrays) -> float:
        out = run({**feeds, **changed})
        return sum(float(np.sum(out[name] * seeds[f"{name}{suffix}"])) for name in outputs)

    worst = 0.0
    for name in wrt:
        assert found[f"{name}{suffix}"].shape == feeds[name].shape, f"the gradient of {name} has another shape"
        direction = np.asarray(random.normal(size=feeds[name].shape))
        ahead, behind = (projected({name: np.asarray(feeds[name] + step * direction)}) for step in (STEP, -STEP))
        numeric = (ahead - behind) / (2 * STEP)
        analytic = float(np.sum(found[f"{name}{suffix}"] * direction))
        error = abs(numeric - analytic) / max(1.0, abs(analytic))
        worst = max(worst, error if np.isfinite(error) else float("inf"))
    return Checked(worst, gradient, given, found)


@dataclass(frozen=True)
class Certificate:
    """How far a case lies from each reference; None where there is none."""

    differences: float | None
    torch: float | None
    second: float | None


def certify(one: Case) -> Certificate:
    """First order against differences and PyTorch, second order against differences of the first."""
    if one.single:
        return Certificate(None, _single_against_torch(one), None)
    wrt = wanted(one)
    first = against_differences(model(one), values(one), wrt)
    seeds = {name: v for name, v in first.feeds.items() if name.endswith("_grad")}
    second = None
    if one.second:
        second = against_differences(first.gradient, first.feeds, [*wrt, *seeds], suffix="_grad2").error
    torch = None
    if one.torch is not None:
        exact = torch_gradients(one, list(seeds.values()), wrt)
        torch = max(difference(first.found[f"{name}_grad"], g) for name, g in exact.items())
    return Certificate(first.error if one.smooth else None, torch, second)


def torch_gradients(one: Case, seeds: Sequence[np.ndarray[Any, Any]], wrt: Sequence[str]) -> Arrays:
    """The gradients of the case as PyTorch has them, in float64."""
    import torch

    assert one.torch is not None
    tensors = {name: torch.tensor(v, requires_grad=name in wrt) for name, v in values(one).items()}
    answer = one.torch(*tensors.values())
    answers = answer if isinstance(answer, tuple) else (answer,)
    total = sum((out * torch.tensor(seed)).sum() for out, seed in zip(answers, seeds, strict=True))
    found = torch.autograd.grad(total, [tensors[name] for name in wrt], allow_unused=True)
    pairs = zip(wrt, found, strict=True)
    return {name: np.zeros_like(values(one)[name]) if g is None else g.numpy() for name, g in pairs}


def _single_against_torch(one: Case) -> float:
    """For an operator that ONNX defines for float32 alone: onnxruntime in float32 against PyTorch in float64."""
    found = gradients(one, dtype=np.float32, stock=True)
    feeds = {k: v.astype(np.float32) for k, v in values(one).items()}
    random = np.random.default_rng(5)
    outputs = evaluator(model(one, dtype=np.float32))(feeds).values()
    seeds = [np.asarray(random.normal(size=value.shape)) for value in outputs]
    exact = torch_gradients(one, seeds, wanted(one))
    return max(difference(found[name].astype(np.float64), g) for name, g in exact.items())


def gradients(one: Case, *, dtype: Any = np.float64, dynamic: bool = False, stock: bool = False) -> Arrays:
    """The gradients of the case for a fixed projection, in another precision, with named sizes, or on onnxruntime."""
    subject = model(one, dtype=dtype, dynamic=dynamic)
    outputs = _float_outputs(subject)
    gradient = differentiate(subject, wrt=wanted(one), output_gradients=outputs, keep_outputs=stock)
    feeds = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in values(one).items()}
    plain = evaluator(subject)(feeds)
    random = np.random.default_rng(5)
    seeds = {f"{n}_grad": np.asarray(random.normal(size=plain[n].shape), plain[n].dtype) for n in outputs}
    if stock and _checkable(one, gradient):
        onnx.checker.check_model(gradient.to_proto())
    run = _by_runtime(gradient.to_proto()) if stock else evaluator(gradient)
    found = run({**feeds, **seeds})
    return {name: found[f"{name}_grad"] for name in wanted(one)}


def _checkable(one: Case, subject: Model) -> bool:
    """onnx's check asks for every shape, and refuses what an older opset has deprecated."""
    shaped = all(value.shape is not None for value in (*subject.ir.graph.inputs, *subject.ir.graph.outputs))
    return shaped and one.opset == OPSET
