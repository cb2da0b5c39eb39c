"""The noise of an ONNX graph: it is run beside its float64 twin, or repeated under other conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.agreement import EXACT, flatten, is_float, judge
from sardonyx.compare.flow import Flow
from sardonyx.compare.noise import DOUBTFUL, ENOUGH, GROSS, Method, Noise, fixed, moved, settle
from sardonyx.compare.partial import Trace, assemble, open_session, run_session
from sardonyx.compare.widen import NARROW, widen
from sardonyx.errors import InputError, RuntimeRefused
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Array, Arrays

MOST_SAMPLES = 8
# A float64 twin holds a few doubles of the largest tensor at a time, most of them while it adds up a convolution.
WIDE_TENSORS = 12
AT_MOST = 8
# The sessions of a model with more bytes of weights are not kept between two groups.
KEPT_BYTES = 64_000_000


def measure(
    model: Model,
    batches: Sequence[Arrays],
    outputs: Sequence[Sequence[Any]],
    *,
    others: Sequence[Sequence[Any]] | None = None,
    leave: Collection[int] = (),
    at_most: int = AT_MOST,
    memory: int | None = None,
) -> Noise:
    """The noise of `model`, whose answers to `batches` are `outputs`.

    With the answers of another model in `others`, only batches whose verdict could depend on it are measured, and none
    after the first that proves a gross mismatch. The rest get their tolerance from those that were measured, scaled to
    their own outputs; so do those that are left after `at_most` measurements (a count, so that a busy machine changes no
    verdict), and those in `leave`: inputs that lie on a threshold, where the last place of a number decides everything
    and says nothing about rounding. A float64 twin that would hold more than `memory` bytes is not made.
    """
    return GraphNoise(lambda: model, memory=memory, at_most=at_most).of(batches, outputs, others=others, leave=leave)


class GraphNoise:
    """The noise of a model over several groups of batches: what one group showed counts for the next.

    The sessions of a small model are kept from group to group; those of a large one are freed, to stay within its memory.
    """

    def __init__(self, load: Callable[[], Model], *, memory: int | None = None, at_most: int = AT_MOST) -> None:
        self._load, self._memory, self._at_most = load, memory, at_most
        self._meter: Meter | None = None
        self._samples: list[tuple[Sequence[Any], Sequence[Sequence[Any]]]] = []
        self._method: Method | None = None

    def of(
        self,
        batches: Sequence[Arrays],
        outputs: Sequence[Sequence[Any]],
        *,
        others: Sequence[Sequence[Any]] | None = None,
        leave: Collection[int] = (),
    ) -> Noise:
        """As `measure` says, for one group of batches."""
        order = list(range(len(batches))) if others is None else _differing(outputs, others)
        if not order:
            return fixed("exact", EXACT, outputs)
        order = [index for index in order if index not in leave] or [0]
        meter = self._meter or Meter(self._load(), batches[order[0]], self._memory)
        kept, method = list(self._samples), meter.method
        if self._method not in (None, method):
            kept = []
        twins: list[list[Sequence[Any]]] = [[] for _ in batches]
        noise = settle(method, outputs, twins, kept)
        measured = 0

        def used(index: int, by: Noise) -> float:
            return math.inf if others is None else judge(outputs[index], others[index], by.tolerances[index]).used

        for index in order:
            if kept and used(index, settle(method, outputs, twins, kept, guess="low")) < DOUBTFUL:
                continue
            twins[index] = meter.twins(batches[index])
            if not kept:
                kept += [meter.moved(batches[index], seed) for seed in range(_samples_missing(outputs[index]))]
            kept.append((outputs[index], twins[index]))
            noise = settle(method, outputs, twins, kept)
            measured += 1
            gross = others is not None and noise.stable[index] and used(index, noise) > GROSS
            if gross or measured == self._at_most:
                break
        self._samples, self._method = kept[: 2 * self._at_most], method
        self._meter = meter if meter.model.weight_bytes() <= KEPT_BYTES else None
        return noise


class Meter:
    """A model beside its twin. Weights are shared: neither holds a copy."""

    def __init__(self, model: Model, example: Mapping[str, Array], memory: int | None = None) -> None:
        self.model = model
        self.flow = Flow.of(model)
        self._steps = any(node.op_type.startswith("TreeEnsemble") for graph in model.ir.graphs() for node in graph)
        self.method: Method = "float64"
        self._sessions: dict[bool, tuple[Any, Arrays]] = {}
        try:
            if memory is not None and wide_bytes(self.flow, Trace(self.flow, example).sizes()) > memory:
                raise InputError("the float64 twin would not fit into memory", hint="allow more with --memory")
            self._run(example, wide_twin=True)
        except (InputError, RuntimeRefused):
            self.method = "repeats"

    def twins(self, batch: Mapping[str, Array]) -> list[Sequence[Any]]:
        """The model's answers to the batch when only rounding differs."""
        if self.method == "float64":
            return [self._run(batch, wide_twin=True)]
        single = Session(self.model, Settings(threads=1, optimize=False))
        answers: list[Sequence[Any]] = [list(single.run_fitted(batch).values())]
        if not self._steps:  # an input moved across the threshold of a tree makes a jump, which is not rounding
            answers += [self._run(batch, given=shaken(Trace(self.flow, batch), seed)) for seed in (1, 2)]
        turned = _turned(batch)
        if turned is not None:
            back = [_turn_back(batch, value) for value in self._run(turned)]
            answers += [back] if all(value is not None for value in back) else []
        return answers

    def moved(self, batch: Mapping[str, Array], seed: int) -> tuple[Sequence[Any], list[Sequence[Any]]]:
        """Another answer and its twins, on inputs that differ from the batch in the last place."""
        other = moved(batch, seed)
        return self._run(other), self.twins(other)

    def _run(
        self, batch: Mapping[str, Array], *, wide_twin: bool = False, given: Mapping[str, Array] | None = None
    ) -> Sequence[Any]:
        if given is not None and not set(given) <= set(batch):
            found = Trace(self.flow, batch).fetch(self.flow.outputs, given)
            return [found[name] for name in self.flow.outputs]
        batch = {**batch, **(given or {})}
        session, feeds = self._sessions.get(wide_twin) or self._open(batch, wide_twin)
        names = {item.name for item in session.get_inputs()}
        inputs = {name if name in names else name + NARROW: array for name, array in {**feeds, **batch}.items()}
        return run_session(session, {name: array for name, array in inputs.items() if name in names}, self.flow.outputs)

    def _open(self, batch: Mapping[str, Array], wide_twin: bool) -> tuple[Any, Arrays]:
        proto, feeds = assemble(self.flow, self.flow.outputs, batch)
        self._sessions[wide_twin] = open_session(widen(proto) if wide_twin else proto), feeds
        return self._sessions[wide_twin]


def shaken(trace: Trace, seed: int) -> Arrays:
    """What to give a run so that everything in it rounds differently: the float inputs, one unit in the last place off.

    Where all inputs are integers, the first floats that are made of them.
    """
    floats = {name: array for name, array in trace.inputs.items() if array.dtype.kind == "f"}
    return moved(floats or trace.fetch(_first_floats(trace)), seed)


def _first_floats(trace: Trace) -> list[str]:
    def is_float_tensor(name: str) -> bool:
        return trace.types.get(name) in ("tensor(float)", "tensor(double)", "tensor(float16)")

    return [
        name
        for step in trace.flow.steps
        if step.reads and not any(is_float_tensor(name) for name in step.reads)
        for name in step.outputs
        if is_float_tensor(name)
    ]


def wide_bytes(flow: Flow, sizes: Mapping[str, int]) -> int:
    """About what a float64 twin holds at most, from the size of every tensor."""
    variable = flow.variable()
    activations = max((size for name, size in sizes.items() if name in variable), default=0)
    constants = max((size for name, size in sizes.items() if name not in variable), default=0)
    return WIDE_TENSORS * activations + 2 * constants


def _differing(outputs: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]]) -> list[int]:
    """The batches whose answers are not equal to the last bit."""
    pairs = enumerate(zip(outputs, others, strict=True))
    return [index for index, (one, two) in pairs if judge(one, two).verdict != "equal"]


def _samples_missing(answer: Sequence[Any]) -> int:
    """How many samples besides the answer itself its smallest float output needs."""
    sizes = [leaf.size for _, leaf in flatten(answer) if is_float(leaf.dtype)]
    return min(MOST_SAMPLES, -(-ENOUGH // max(1, min(sizes, default=ENOUGH)))) - 1


def _turned(batch: Mapping[str, Array]) -> Arrays | None:
    """The batch with its examples in reverse order, if all inputs have the same number of them and there are several."""
    sizes = {array.shape[0] if array.ndim else 0 for array in batch.values()}
    if len(sizes) != 1 or max(sizes) < 2:
        return None
    return {name: array[::-1] for name, array in batch.items()}


def _turn_back(batch: Mapping[str, Array], value: Any) -> Any:
    size = next(iter(batch.values())).shape[0]
    return value[::-1] if isinstance(value, np.ndarray) and value.ndim and value.shape[0] == size else None
