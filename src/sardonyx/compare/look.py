"""Two models on the same inputs, compared at any tensor that both have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sardonyx.agreement import EXACT, OutputVerdict, Tolerance, is_float, judge
from sardonyx.compare.graph_noise import shaken, wide_bytes
from sardonyx.compare.noise import tolerance_of
from sardonyx.compare.partial import Trace, assemble, execute
from sardonyx.compare.widen import NARROW, widen
from sardonyx.errors import InputError, RuntimeRefused
from sardonyx.signature import Arrays

# A tensor is held twice, and its float64 twin is as large as both.
COPIES = 4
# This much may be held however small the model is: next to the interpreter itself it is little.
SMALL = 100 << 20
_NUMPY = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
# In terms of the least tolerance that a tensor can have: below the first a difference is rounding, above the second it is not.
SURELY_ROUNDING = 0.25
SURELY_WRONG = 1e5


@dataclass(frozen=True)
class Look:
    """What was seen at one tensor. Without a tolerance, a glance was enough."""

    verdict: OutputVerdict
    tolerance: Tolerance | None = None

    @property
    def used(self) -> float:
        return self.verdict.used


@dataclass
class Both:
    """The two models. `pairs` maps tensors of the candidate to those of the reference."""

    reference: Trace
    candidate: Trace
    pairs: Mapping[str, str]
    memory: int
    looks: dict[str, Look] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    wide: bool = True

    @property
    def runs(self) -> int:
        return self.reference.runs + self.candidate.runs

    def survey(self) -> None:
        """Learns the size of every tensor of the candidate, from one run that keeps none."""
        self.sizes = self.candidate.sizes()
        # A plain run holds the weights and a few tensors; the search shall not need much more.
        largest, weights = max(self.sizes.values(), default=0), self.candidate.flow.weight_bytes()
        self.memory = min(self.memory, max(SMALL, weights // 2 + COPIES * largest))
        self.wide = wide_bytes(self.candidate.flow, self.sizes) <= max(SMALL, weights // 2)

    def used(self, name: str) -> float:
        """How much of its tolerance the tensor was seen to use; nothing if it was not looked at."""
        return self.looks[name].used if name in self.looks else 0.0

    def look(self, names: Sequence[str]) -> list[str]:
        """Compares the first of the tensors, as many as fit into memory together, and says which."""
        chosen = self._fitting(names)
        pairs = {name: self.pairs[name] for name in chosen}
        expected, actual = self.reference.fetch(pairs.values()), self.candidate.fetch(chosen)
        seen = {name: _glance(expected[theirs], actual[name]) for name, theirs in pairs.items()}
        doubtful = {name: pairs[name] for name, look in seen.items() if look is None}
        tolerances = self._tolerances({theirs: expected[theirs] for theirs in doubtful.values()})
        for name, theirs in doubtful.items():
            tolerance = tolerances[theirs]
            seen[name] = Look(judge([expected[theirs]], [actual[name]], [tolerance]).outputs[0], tolerance)
        self.looks |= {name: look for name, look in seen.items() if look is not None}
        return chosen

    def replay(self, name: str, sources: Iterable[str]) -> OutputVerdict | None:
        """The verdict on a tensor when the candidate computes it from what the reference has for `sources`.

        None where that cannot be known: they do not fit into memory, or the candidate fails on them.
        """
        pairs = {source: self.pairs[source] for source in sources}
        theirs = self.pairs[name]
        if COPIES * sum(self.sizes.get(item, 0) for item in (name, *pairs)) > max(
            self.memory, COPIES * self.sizes[name]
        ):
            return None
        expected = self.reference.fetch([*pairs.values(), theirs])
        tolerance = self.looks[name].tolerance if name in self.looks else None
        if tolerance is None:
            tolerance = self._tolerances({theirs: expected[theirs]})[theirs]
        try:
            actual = self.candidate.fetch([name], self.given({mine: expected[other] for mine, other in pairs.items()}))
        except RuntimeRefused:
            return None
        return judge([expected[theirs]], [actual[name]], [tolerance]).outputs[0]

    def given(self, arrays: Mapping[str, Any]) -> Arrays:
        """The arrays in the types that the candidate has them in, as where it computes in half precision."""
        own = {name: str(array.dtype) for name, array in self.candidate.inputs.items()}
        kinds = {name: _NUMPY.get(kind, "") for name, kind in self.candidate.types.items()} | own
        wanted = {name: np.dtype(kinds.get(name) or array.dtype) for name, array in arrays.items()}
        return {name: array.astype(wanted[name], copy=False) for name, array in arrays.items()}

    def _fitting(self, names: Sequence[str]) -> list[str]:
        chosen, held = list[str](), 0
        for name in names:
            held += COPIES * self.sizes[name]
            if chosen and held > self.memory:
                break
            chosen.append(name)
        return chosen

    def _tolerances(self, tensors: Mapping[str, Any]) -> dict[str, Tolerance]:
        """The tolerance of tensors of the reference, from one run with other rounding."""
        floats = [name for name, array in tensors.items() if _is_float_array(array)]
        twins = again(self.reference, floats, wide=self.wide) if floats else {}
        return {
            name: tolerance_of(array, [twins[name]], "float64") if name in floats else EXACT
            for name, array in tensors.items()
        }


def again(trace: Trace, names: Sequence[str], *, wide: bool) -> Arrays:
    """The tensors once more with other rounding: in float64, or else from inputs moved by one unit in the last place."""
    if not wide:
        return trace.fetch(names, shaken(trace, 1))
    trace.runs += 1
    try:
        proto, feeds = assemble(trace.flow, names, trace.inputs)
        twin = widen(proto)
        taken = {value.name for value in twin.graph.input}
        return execute(twin, {name if name in taken else name + NARROW: array for name, array in feeds.items()}, names)
    except (InputError, RuntimeRefused):
        return again(trace, names, wide=False)


def _glance(expected: Any, actual: Any) -> Look | None:
    """The look, where it needs no measured tolerance: integers, a few units in the last place, or a gross difference."""
    if not _is_float_array(expected):
        return Look(judge([expected], [actual]).outputs[0])
    least = tolerance_of(expected, [], "float64")
    verdict = judge([expected], [actual], [least]).outputs[0]
    if verdict.used < SURELY_ROUNDING or verdict.max_abs is None or verdict.max_abs > SURELY_WRONG * least.absolute:
        return Look(verdict)
    return None


def _is_float_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and is_float(value.dtype)
