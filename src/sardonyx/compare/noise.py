"""How far rounding alone moves a model's outputs, measured, and the tolerance that follows from it.

A model is compared with itself: with its float64 twin where that can be made, else with repeats under other conditions.
The spread at an element is described by two numbers, `absolute + relative * |value|`: the relative part is read off the
largest elements, the absolute part is what the others need on top (a logarithm near zero, a difference of large terms).
docs/concepts/rounding-or-bug.md gives the reasoning.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from sardonyx.agreement import EXACT, Tolerance, flatten, is_float, judge
from sardonyx.compare.floor import Floor, floor_of, unit_roundoff
from sardonyx.compare.flow import Flow
from sardonyx.compare.partial import Trace, assemble, open_session, run_session
from sardonyx.compare.widen import NARROW, widen
from sardonyx.errors import InputError, RuntimeRefused
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Array, Arrays

Method = Literal["float64", "repeats", "given", "exact"]
Guess = Literal["high", "low"]

# An honest variant rounds elsewhere: its error is independent of the measured one, may be a few times larger (sums in
# another order, a fused operator) and is looked at where it is worst. Repeats share kernels, so they show less of it.
SAFETY: dict[Method, float] = {"float64": 16.0, "repeats": 48.0}
# With fewer measured values than this, one of them may be small by luck, so inputs moved by one unit in the last place add some.
ENOUGH = 64
MOST_SAMPLES = 8
# A float64 twin holds a few doubles of the largest tensor at a time, most of them while it adds up a convolution.
WIDE_TENSORS = 12
# A difference below this share of a tolerance that was measured on another batch needs no measurement of its own.
DOUBTFUL = 0.5
# A difference of so many tolerances, of a batch that was measured itself, stays one whatever the others would show.
GROSS = 30.0
AT_MOST = 8
# Where an output is zero or nearly so, what cancelled is not seen in it: its rounding is at least that of so small a share of
# the size that it has on other batches.
CANCELLED = 1e-6


@dataclass(frozen=True)
class Noise:
    """The tolerance of every flattened output of every batch.

    `stable` says of each batch whether NaN and infinities stayed where they were when only the rounding changed.
    """

    method: Method
    tolerances: tuple[tuple[Tolerance, ...], ...]
    stable: tuple[bool, ...]


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
    order = list(range(len(batches))) if others is None else _differing(outputs, others)
    if not order:
        return fixed("exact", EXACT, outputs)
    order = [index for index in order if index not in leave] or [0]
    meter = Meter(model, batches[0], memory)
    twins: list[list[Sequence[Any]]] = [[] for _ in batches]
    extra: list[tuple[Sequence[Any], Sequence[Sequence[Any]]]] = []
    noise = settle(meter.method, outputs, twins)
    measured = 0

    def used(index: int, by: Noise) -> float:
        return math.inf if others is None else judge(outputs[index], others[index], by.tolerances[index]).used

    for index in order:
        if measured and used(index, settle(meter.method, outputs, twins, extra, guess="low")) < DOUBTFUL:
            continue
        twins[index] = meter.twins(batches[index])
        if not measured:
            extra = [meter.moved(batches[index], seed) for seed in range(_samples_missing(outputs[index]))]
        noise = settle(meter.method, outputs, twins, extra)
        measured += 1
        gross = others is not None and noise.stable[index] and used(index, noise) > GROSS
        if gross or measured == at_most:
            break
    return noise


def settle(
    method: Method,
    outputs: Sequence[Sequence[Any]],
    twins: Sequence[Sequence[Sequence[Any]]],
    extra: Sequence[tuple[Sequence[Any], Sequence[Sequence[Any]]]] = (),
    *,
    guess: Guess = "high",
) -> Noise:
    """The noise, from answers and, for each, the answers of its twins.

    An answer without a twin gets a guess from the others, scaled to it: a high one to be judged by, or a low one to find
    out whether it should be measured itself. What was measured was mostly chosen for being in doubt, so it is not typical.
    """
    measured = [_floors(answer, others) if others else None for answer, others in zip(outputs, twins, strict=True)]
    samples = [floors for floors in (*measured, *(_floors(*pair) for pair in extra)) if floors is not None]
    stable = tuple(_same_finite(answer, others) for answer, others in zip(outputs, twins, strict=True))
    typical = _typical([*outputs, *(answer for answer, _ in extra)])
    tolerances = []
    for answer, floors in zip(outputs, measured, strict=True):
        leaves = [array for _, array in flatten(answer)]
        tolerances.append(tuple(
            _at_least(
                _tolerance(method, leaf, floors[index] if floors else None, [s[index] for s in samples if index < len(s)], guess),
                leaf, SAFETY[method] * CANCELLED * typical[index],
            )
            for index, leaf in enumerate(leaves)
        ))  # fmt: skip
    return Noise(method, tuple(tolerances), stable)


def fixed(method: Method, tolerance: Tolerance, outputs: Sequence[Sequence[Any]]) -> Noise:
    """One tolerance for everything, not measured."""
    return Noise(method, tuple((tolerance,) * len(flatten(answer)) for answer in outputs), (True,) * len(outputs))


def added(noise: Noise, tolerance: Tolerance) -> Noise:
    """The measured tolerances with what the user allows on top."""
    widened = tuple(
        tuple(Tolerance(own.absolute + tolerance.absolute, own.relative + tolerance.relative) for own in batch)
        for batch in noise.tolerances
    )
    return Noise(noise.method, widened, noise.stable)


def larger(one: Noise, two: Noise) -> Noise:
    """The larger tolerance of two measurements, and stable only where both are."""
    merged = tuple(
        tuple(
            Tolerance(max(a.absolute, b.absolute), max(a.relative, b.relative))
            for a, b in zip_longest(first, second, fillvalue=Tolerance())
        )
        for first, second in zip(one.tolerances, two.tolerances, strict=True)
    )
    return Noise(one.method, merged, tuple(a and b for a, b in zip(one.stable, two.stable, strict=True)))


def tolerance_of(reference: Array, twins: Sequence[Array], method: Method) -> Tolerance:
    """The tolerance of one tensor from its own spread alone."""
    floor = floor_of(reference, twins)
    return Tolerance(SAFETY[method] * floor.absolute, SAFETY[method] * floor.relative)


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


def moved(batch: Mapping[str, Array], seed: int) -> Arrays:
    """The batch with every float one unit in the last place up or down."""
    random = np.random.default_rng(seed)

    def step(array: Array) -> Array:
        where = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf)
        with np.errstate(over="ignore"):
            return np.asarray(np.nextafter(array, where.astype(array.dtype)))

    return {name: step(array) if array.dtype.kind == "f" else array for name, array in batch.items()}


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


def _floors(answer: Sequence[Any], twins: Sequence[Sequence[Any]]) -> list[Floor]:
    others = [[array for _, array in flatten(twin)] for twin in twins]
    leaves = [array for _, array in flatten(answer)]
    return [
        floor_of(leaf, [other[index] for other in others if index < len(other)])
        if is_float(leaf.dtype)
        else Floor(0.0, 0.0, 0.0)
        for index, leaf in enumerate(leaves)
    ]


def _tolerance(method: Method, leaf: Array, own: Floor | None, samples: Sequence[Floor], guess: Guess) -> Tolerance:
    """The output's own noise. Where it was not measured, or on few values, which may be small by luck, the samples count too."""
    safety = SAFETY[method]
    if not is_float(leaf.dtype):
        return Tolerance()
    if own is not None and method == "float64" and leaf.size >= ENOUGH:
        return Tolerance(safety * own.absolute, safety * own.relative)
    pick = _upper_quartile if guess == "high" or own is not None else _lowest
    scale = own.scale if own is not None else floor_of(leaf).scale
    absolute = pick([sample.absolute / sample.scale for sample in samples if sample.scale]) * scale
    relative = pick([sample.relative for sample in samples])
    if method == "repeats":
        # They do not show how large the terms were that cancel to a small output; the other samples do.
        absolute = max(absolute, pick([sample.absolute for sample in samples]))
    if own is not None:
        absolute, relative = max(absolute, own.absolute), max(relative, own.relative)
    return Tolerance(safety * absolute, safety * relative)


def _typical(outputs: Sequence[Sequence[Any]]) -> list[float]:
    """The largest size, as a root mean square, that each flattened output has."""
    found: list[float] = []
    for answer in outputs:
        for index, (_, leaf) in enumerate(flatten(answer)):
            size = floor_of(leaf).scale if is_float(leaf.dtype) else 0.0
            found[index : index + 1] = [max([size, *found[index : index + 1]])]
    return found


def _at_least(tolerance: Tolerance, leaf: Array, size: float) -> Tolerance:
    """The tolerance, but no less than the type's own rounding of a number of this size."""
    if not is_float(leaf.dtype):
        return tolerance
    return Tolerance(max(tolerance.absolute, unit_roundoff(leaf.dtype) * size), tolerance.relative)


def _lowest(values: Sequence[float]) -> float:
    return min(values, default=0.0)


def _upper_quartile(values: Sequence[float]) -> float:
    """So that no odd one rules."""
    return sorted(values)[(len(values) - 1) * 3 // 4] if values else 0.0


def _differing(outputs: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]]) -> list[int]:
    """The batches whose answers are not equal to the last bit."""
    pairs = enumerate(zip(outputs, others, strict=True))
    return [index for index, (one, two) in pairs if judge(one, two).verdict != "equal"]


def _samples_missing(answer: Sequence[Any]) -> int:
    """How many samples besides the answer itself its smallest float output needs."""
    sizes = [leaf.size for _, leaf in flatten(answer) if is_float(leaf.dtype)]
    return min(MOST_SAMPLES, -(-ENOUGH // max(1, min(sizes, default=ENOUGH)))) - 1


def _same_finite(answer: Sequence[Any], twins: Sequence[Sequence[Any]]) -> bool:
    leaves = [array for _, array in flatten(answer)]
    for twin in twins:
        for one, (_, two) in zip(leaves, flatten(twin), strict=False):
            if is_float(one.dtype) and (
                one.shape != two.shape or not np.array_equal(np.isfinite(one), np.isfinite(two))
            ):
                return False
    return True


def _turned(batch: Mapping[str, Array]) -> Arrays | None:
    """The batch with its examples in reverse order, if all inputs have the same number of them and there are several."""
    sizes = {array.shape[0] if array.ndim else 0 for array in batch.values()}
    if len(sizes) != 1 or max(sizes) < 2:
        return None
    return {name: array[::-1] for name, array in batch.items()}


def _turn_back(batch: Mapping[str, Array], value: Any) -> Any:
    size = next(iter(batch.values())).shape[0]
    return value[::-1] if isinstance(value, np.ndarray) and value.ndim and value.shape[0] == size else None
