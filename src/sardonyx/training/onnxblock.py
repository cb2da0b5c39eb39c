"""Losses and blocks of one's own, with the names of onnxruntime-training's `onnxblock`.

    class Penalised(onnxblock.Block):
        def __init__(self):
            super().__init__()
            self.loss = onnxblock.loss.CrossEntropyLoss()

        def build(self, scores):
            return self.loss(scores) + 0.01 * onnxblock.op("ReduceSumSquare", scores, keepdims=0)

    generate_artifacts(model, loss=Penalised(), optimizer=OptimType.AdamW)

A block is called with values of the graph and gives values. `+ - * /` and `op(...)` write the nodes. `self.input(...)` adds an
input of the training graph, such as a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from sardonyx.build import Builder, Dimension, Expr, op, ops
from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.training import losses
from sardonyx.training.checkpoint import CheckpointState
from sardonyx.training.graphs import Graphs, Rule, assemble, attach_named
from sardonyx.training.manifest import Label

__all__ = [
    "Block", "TrainingBlock", "base", "blocks", "load_checkpoint_to_model", "loss", "op", "ops", "optim", "save_checkpoint",
]  # fmt: skip


# The graph that is being built and the targets that were added to it, while a block is called.
_CURRENT: ContextVar[tuple[Builder, list[Label]] | None] = ContextVar("current", default=None)
_BASE: ContextVar[onnx.ModelProto | None] = ContextVar("base", default=None)


def _current() -> tuple[Builder, list[Label]]:
    found = _CURRENT.get()
    if found is None:
        raise UsageError("a block was called outside a graph", hint="call it inside the build() of another block")
    return found


class Block:
    """A piece of a training graph: override `build`, and call the block with values."""

    def build(self, *values: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no build()")

    def __call__(self, *values: Any) -> Any:
        return self.build(*values)

    def input(self, name: str, dtype: str, shape: Sequence[Dimension]) -> Expr:
        """A new input of the training graph."""
        build, labels = _current()
        value = ir.val(build.names.fresh(name), ir.DataType[dtype.upper()], list(shape))
        build.graph.inputs.append(value)
        assert value.dtype is not None
        labels.append(Label(value.name or name, str(value.dtype.numpy()), tuple(shape)))
        return build.expr(value)

    def attach(self, build: Builder, predictions: list[Expr]) -> tuple[Expr, list[Label]]:
        """What `generate_artifacts` calls: the loss, and the targets that it takes."""
        labels: list[Label] = []
        token = _CURRENT.set((build, labels))
        try:
            found = self.build(*predictions)
        finally:
            _CURRENT.reset(token)
        return (found[0] if isinstance(found, tuple) else found), labels


class TrainingBlock(Block):
    """A block that becomes a training and an evaluation graph: call it with names of outputs inside `base(model)`."""

    def __init__(self) -> None:
        self._wanted: dict[str, bool] = {}
        self._graphs: Graphs | None = None

    def requires_grad(self, argument_name: str, value: bool = True) -> None:
        """Whether a parameter learns."""
        self._wanted[argument_name] = value

    def __call__(self, *values: Any) -> Any:
        if _CURRENT.get() is not None:  # inside another block
            return self.build(*values)
        model = _BASE.get()
        if model is None:
            raise UsageError("a training block needs a model", hint="call it in `with onnxblock.base(model):`")
        learning = [name for name, wanted in self._wanted.items() if wanted]
        self._graphs = assemble(
            Model.from_proto(model), attach=self.attach, rule=None, train=learning or None,
            freeze=[name for name, wanted in self._wanted.items() if not wanted], predictions=list(values) or None,
        )  # fmt: skip
        return self._graphs.manifest.loss

    def to_model_proto(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """The training and the evaluation graph."""
        graphs = self._built()
        return graphs.training.to_proto(), graphs.evaluation.to_proto()

    def parameters(self) -> tuple[list[onnx.TensorProto], list[onnx.TensorProto]]:
        """The parameters that learn, and those that do not."""
        graphs = self._built()
        named = {name: onnx.numpy_helper.from_array(value, name) for name, value in graphs.values.items()}
        learning = [named[each.name] for each in graphs.manifest.trainable]
        return learning, [named[each.name] for each in graphs.manifest.parameters if not each.trainable]

    def _built(self) -> Graphs:
        if self._graphs is None:
            raise UsageError("the block was not built", hint="call it in `with onnxblock.base(model):` first")
        return self._graphs


@contextmanager
def base(model: onnx.ModelProto, model_path: str | None = None) -> Iterator[onnx.ModelProto]:  # noqa: ARG001
    """The model that a `TrainingBlock` inside is built on."""
    token = _BASE.set(model)
    try:
        yield model
    finally:
        _BASE.reset(token)


def save_checkpoint(
    parameters: tuple[list[onnx.TensorProto], list[onnx.TensorProto]],
    path: str | Path,
    nominal_checkpoint: bool = False,
) -> None:
    """Writes parameters that learn and those that do not, as `TrainingBlock.parameters()` gives them."""
    learning, frozen = parameters
    trainable = {tensor.name: True for tensor in learning} | {tensor.name: False for tensor in frozen}
    arrays = {} if nominal_checkpoint else {t.name: onnx.numpy_helper.to_array(t) for t in (*learning, *frozen)}
    CheckpointState(arrays, trainable, nominal=nominal_checkpoint).save(path)


def load_checkpoint_to_model(path_to_checkpoint: str | Path, model: onnx.ModelProto) -> None:
    """Puts the parameters of a checkpoint into the initializers of the model."""
    arrays = CheckpointState.load_checkpoint(path_to_checkpoint).arrays
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(arrays[tensor.name]), tensor.name))


class _Named(Block):
    """A loss of the table, as a block."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name = name
        self._options = {key: value for key, value in options.items() if value is not None}

    def build(self, *values: Any) -> Expr:
        """The loss of predictions, and of a target: a value, the name of an input, or the name of a new one."""
        build, known = _current()
        scores, *rest = values
        target = rest[0] if rest else None
        there = {value.name: value for value in build.graph.inputs}
        if isinstance(target, str) and target in there:
            target = build.expr(there[target])
        if isinstance(target, Expr):
            chosen = losses.named(self._name)
            return chosen.function(scores, target, **losses.options_of(chosen, self._options))
        found, labels = attach_named(self._name, self._options, target)(build, [scores])
        known.extend(labels)
        return found


class ClipGradNorm:
    """Clips the gradients to a norm: `AdamW(clip_grad=ClipGradNorm(1.0))`."""

    def __init__(self, max_norm: float) -> None:
        self.max_norm = max_norm


class _NamedOptimizer:
    def __init__(self, name: str, options: Mapping[str, Any], clip_grad: ClipGradNorm | None = None) -> None:
        self.rule = Rule(name, options, clip_norm=None if clip_grad is None else clip_grad.max_norm)


loss = SimpleNamespace(
    MSELoss=lambda **options: _Named("mse", options),
    CrossEntropyLoss=lambda **options: _Named("cross_entropy", options),
    BCEWithLogitsLoss=lambda **options: _Named("bce_with_logits", options),
    L1Loss=lambda **options: _Named("l1", options),
)

optim = SimpleNamespace(
    AdamW=lambda clip_grad=None, **options: _NamedOptimizer("adamw_onnxruntime", options, clip_grad),
    SGD=lambda clip_grad=None, **options: _NamedOptimizer("sgd", options, clip_grad),
    ClipGradNorm=ClipGradNorm,
)


class _Operator(Block):
    """One operator as a block: its attributes when it is made, its values when it is called."""

    def __init__(self, write: Callable[..., Any]) -> None:
        self._write = write

    def build(self, *values: Any) -> Any:
        return self._write(_current()[0], *values)


def _plain(op_type: str, **attributes: Any) -> Callable[[], _Operator]:
    return lambda: _Operator(lambda build, *values: op(op_type, *values, **attributes))  # noqa: ARG005


def _input_like(like: str | Expr) -> _Operator:
    def write(build: Builder, name: str = "input") -> Expr:
        known = {
            value.name: value for value in (*build.graph.inputs, *(out for node in build.graph for out in node.outputs))
        }
        value = like.value if isinstance(like, Expr) else known.get(like)
        if value is None or value.dtype is None:
            raise UsageError(
                f"there is no value '{like}'", hint=f"the graph has {', '.join(list(map(str, known))[:6])}"
            )
        shape = () if value.shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
        return block.input(name, value.dtype.name, shape)

    block = _Operator(write)
    return block


blocks = SimpleNamespace(
    Block=Block, Add=_plain("Add"), Sub=_plain("Sub"), Mul=_plain("Mul"), Div=_plain("Div"), Sigmoid=_plain("Sigmoid"),
    Log=_plain("Log"), Neg=_plain("Neg"), Abs=_plain("Abs"),
    Pow=lambda exponent: _Operator(lambda build, x: x**exponent),  # noqa: ARG005
    ReduceMean=lambda keepdims=True: _plain("ReduceMean", keepdims=int(keepdims))(),
    ReduceSum=lambda keepdims=True: _plain("ReduceSum", keepdims=int(keepdims))(),
    Constant=lambda value_float: _Operator(lambda build: build.constant(value_float, ir.DataType.FLOAT)),
    Clip=lambda clip_min=None, clip_max=None: _Operator(lambda build, x: op("Clip", x, clip_min, clip_max)),  # noqa: ARG005
    Cast=lambda to: _Operator(lambda build, x: op("Cast", x, to=int(to))),  # noqa: ARG005
    PassThrough=lambda: _Operator(lambda build, *values: values if len(values) > 1 else values[0]),  # noqa: ARG005
    InputLike=_input_like,
)  # fmt: skip
