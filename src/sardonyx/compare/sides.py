"""The two sides of a comparison: things that answer batches, ONNX models or originals in their own framework."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import onnx
import onnx_ir as ir

from sardonyx.agreement import judge
from sardonyx.compare.partial import release
from sardonyx.errors import BadData, InputError, RuntimeRefused, UsageError
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings, stored_level
from sardonyx.signature import Array, Arrays, Signature
from sardonyx.sources import Failure, Original, Outputs, recognise

# Where a failure lies if the inputs do not fit what the model declares.
INPUTS = "inputs"
# The level of a reference.
PLAIN = "none"
QUANTIZED = frozenset((
    "QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger", "MatMulNBits",
))  # fmt: skip
RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
)


class Side(Protocol):
    """Answers batches. `signature` is there if the side is an ONNX graph, and `graph` then gives that to look into."""

    @property
    def signature(self) -> Signature | None: ...
    def graph(self) -> Model | None: ...
    def predict(self, batches: Sequence[Mapping[str, Array]], *, double: bool = False) -> list[Outputs | Failure]: ...


@dataclass(frozen=True)
class OnnxSide:
    """An ONNX model, on disk or in memory. Weights and sessions live no longer than a call needs them.

    `level` is how far onnxruntime may change its graph: as the model says where it is None.
    """

    source: Model | Path
    signature: Signature
    operators: frozenset[str]
    level: str | None = None

    @classmethod
    def of(cls, source: Model | Path) -> OnnxSide:
        model = Model.load(source)
        operators = frozenset(node.op_type for graph in model.ir.graphs() for node in graph)
        made = cls(source, model.signature, operators, stored_level(model))
        del model
        free_graphs()
        return made

    @property
    def plain(self) -> OnnxSide:
        """The same model as a reference: without onnxruntime's graph optimiser, which has faults of its own.

        A quantised model stays as it is run. Its integer kernels are made by that optimiser, and are what was measured.
        """
        return self if self.operators & QUANTIZED else replace(self, level=PLAIN)

    def graph(self) -> Model:
        return Model.load(self.source)

    def predict(self, batches: Sequence[Mapping[str, Array]], *, double: bool = False) -> list[Outputs | Failure]:
        """The answers to all batches, from one new session. The first answer of a reference is checked by a second run."""
        assert not double, "the float64 twin of a graph is made by compare.noise"
        session = Session(self.source, Settings(level=self.level), signature=self.signature)
        answers = [_answer(session, batch) for batch in batches]
        if self.level == PLAIN and batches:
            answers[0] = _steady(session, batches[0], answers[0])
        del session
        release()
        return answers


@dataclass(frozen=True)
class OriginalSide:
    """A model in its own framework."""

    original: Original
    signature: None = None

    def graph(self) -> None:
        return None

    def predict(self, batches: Sequence[Mapping[str, Array]], *, double: bool = False) -> list[Outputs | Failure]:
        return self.original.predict(batches, double=double)


@dataclass(frozen=True)
class Pairing:
    """Which names of the candidate belong to which names of the reference, and what had to be assumed."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def inputs_for_candidate(self, inputs: Arrays) -> Arrays:
        return {mine: inputs[theirs] for mine, theirs in self.inputs.items()}

    def outputs_for_reference(self, answer: Outputs, expected: Outputs) -> list[Any]:
        """The candidate's answers in the reference's order: as paired, else by position."""
        if not self.outputs:
            return list(answer.arrays)
        found = {self.outputs.get(name, ""): value for name, value in zip(answer.names, answer.arrays, strict=True)}
        return [found[name] for name in expected.names]


def free_graphs() -> None:
    """Frees graphs that nobody holds any more: their nodes point at one another, so counting references is not enough."""
    gc.collect()
    release()


def open_candidate(source: Any) -> OnnxSide:
    """The candidate, which must be an ONNX model."""
    found = _as_onnx(source)
    if found is None:
        raise UsageError(
            f"the candidate {source if isinstance(source, str | Path) else type(source).__name__} is not an ONNX model",
            hint="the reference may be any source, but the candidate is an .onnx file: sardonyx compare REFERENCE CANDIDATE.onnx",
        )
    return OnnxSide.of(found)


@contextmanager
def open_reference(source: Any, options: Mapping[str, Any]) -> Iterator[Side]:
    """The reference: an ONNX model, or any source, open until the block ends."""
    found = _as_onnx(source)
    if found is not None:
        yield OnnxSide.of(found).plain
        return
    with Original(
        recognise(source, **{name: value for name, value in options.items() if value is not None})
    ) as original:
        yield OriginalSide(original)


def pair(reference: Signature | None, candidate: Signature) -> Pairing:
    """Inputs and outputs that belong together: by name, else by position where the numbers allow it.

    An original in its own framework takes inputs by the candidate's names, and its outputs count by position.
    """
    notes: list[str] = []
    if reference is None:
        return Pairing({spec.name: spec.name for spec in candidate.inputs}, {})
    mine, theirs = ([spec.name for spec in side.inputs] for side in (candidate, reference))
    inputs = _match(mine, theirs, "inputs", notes)
    mine, theirs = ([spec.name for spec in side.outputs] for side in (candidate, reference))
    outputs = _match(mine, theirs, "outputs", notes)
    return Pairing(inputs, outputs, tuple(notes))


def _match(mine: Sequence[str], theirs: Sequence[str], what: str, notes: list[str]) -> dict[str, str]:
    if set(mine) == set(theirs) or (what == "outputs" and set(theirs) < set(mine)):
        return {name: name for name in mine if name in theirs}
    if len(mine) != len(theirs):
        raise InputError(
            f"the candidate has {len(mine)} {what} ({', '.join(mine) or 'none'}), "
            f"the reference {len(theirs)} ({', '.join(theirs) or 'none'})",
            hint=f"compare models with the same number of {what}, or give them the same names",
        )
    renamed = [f"{a} for {b}" for a, b in zip(mine, theirs, strict=True) if a != b]
    notes.append(f"the {what} have other names and are matched by position: {', '.join(renamed)}")
    return dict(zip(mine, theirs, strict=True))


def _as_onnx(source: Any) -> Model | Path | None:
    """The model or its path, if the source is ONNX."""
    if isinstance(source, Model):
        return source
    if isinstance(source, onnx.ModelProto):
        return Model.from_proto(source)
    if isinstance(source, ir.Model):
        return Model(source)
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".onnx":
        return Path(source)
    if isinstance(source, str | Path) and Path(source).is_file() and recognise(source, trust=True).plugin == "onnx":
        return Path(source)
    return None


def _steady(session: Session, batch: Mapping[str, Array], first: Outputs | Failure) -> Outputs | Failure:
    """The first answer, or the second where the first run of a session is the only one that differs (onnxruntime#26160).

    A model that draws random numbers answers otherwise each time, and then the first answer is as good as any.
    """
    second = _answer(session, batch)
    if _same(first, second):
        return first
    return second if _same(second, _answer(session, batch)) else first


def _same(one: Outputs | Failure, two: Outputs | Failure) -> bool:
    if isinstance(one, Failure) or isinstance(two, Failure):
        return isinstance(one, Failure) and isinstance(two, Failure)
    return judge(one.arrays, two.arrays).verdict == "equal"


def _answer(session: Session, batch: Mapping[str, Array]) -> Outputs | Failure:
    try:
        answer = session(batch)
    except BadData as error:
        return Failure(error.message, INPUTS)
    except RuntimeRefused as error:
        return Failure(error.message)
    return Outputs(tuple(answer), tuple(answer.values()))
