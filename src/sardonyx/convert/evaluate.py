"""Is an export right? The original's answers to the probes against the export's, within measured rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.agreement import Judgement, Tolerance, judge
from sardonyx.compare import noise
from sardonyx.compare.noise import Noise
from sardonyx.convert import repairs, rounding
from sardonyx.convert.candidate import Candidate, fixed_dimensions, prepare
from sardonyx.convert.counterexample import single_rows
from sardonyx.convert.inputs import Inputs
from sardonyx.convert.probes import Probe
from sardonyx.convert.training import in_evaluation
from sardonyx.errors import SardonyxError, SourceFailed
from sardonyx.model import Model
from sardonyx.signature import Array
from sardonyx.sources import Exported, Failure, Original, Outputs, Source

ON_EDGE = "differs only where an input lies exactly on a threshold, which float32 rounds"


@dataclass(frozen=True)
class Answered:
    """A probe with the original's answer."""

    probe: Probe
    outputs: Outputs


class Evaluation:
    """Asks the original once, then judges any number of exports."""

    def __init__(
        self,
        original: Original,
        inputs: Inputs,
        description: Mapping[str, Any],
        scratch: Path,
        *,
        opset: int | None,
        output_names: Sequence[str],
        rtol: float | None,
        atol: float | None,
        training: bool,
    ) -> None:
        self._original = original
        self._inputs = inputs
        self._description = description
        self._scratch = scratch
        self._opset = opset
        self._output_names = output_names
        self._training = training
        self._asked_tolerance = None if rtol is None and atol is None else Tolerance(atol or 0.0, rtol or 0.0)
        self._answered: list[Answered] = []
        self._rounding: rounding.Rounding | None = None
        self.processor_seconds = 0.0  # of the exports' own processes
        self._floors: list[tuple[Sequence[Outputs], Noise]] = []

    @property
    def probe_names(self) -> list[str]:
        """The probes that the original itself could answer."""
        return [item.probe.name for item in self._answered]

    def ask(self, probes: Sequence[Probe]) -> None:
        """Takes the original's answers. It may refuse a probe, which then proves nothing, but not the example."""
        answers = self._original.predict([probe.arrays for probe in probes])
        if isinstance(answers[0], Failure):
            where = f" at {answers[0].where}" if answers[0].where else ""
            raise SourceFailed(
                f"{self._original.source} fails on the example inputs{where}: {answers[0].reason}",
                hint=f"the example is {self._inputs.signature.describe()}; give real values with --example",
            )
        pairs = zip(probes, answers, strict=True)
        self._answered = [Answered(probe, answer) for probe, answer in pairs if isinstance(answer, Outputs)]
        if self._asked_tolerance is None:
            self._rounding = rounding.Rounding(
                self._original,
                self._inputs.signature,
                [item.probe for item in self._answered],
                [item.outputs for item in self._answered],
            )

    def require_repeatable(self) -> None:
        """Raises if the source gives another model each time it is opened: then no export can be right."""
        if self._original.source.live:
            return
        first = self._answered[0]
        with Original(self._original.source, timeout=self._original.timeout) as again:
            (answer,) = again.predict([first.probe.arrays])
        loose = [Tolerance(relative=1e-3)] * len(first.outputs.arrays)
        if isinstance(answer, Failure) or _judged(first, answer, loose).verdict == "mismatch":
            raise SourceFailed(
                f"{self._original.source} is another model each time it is opened",
                hint="give its trained weights with --weights, or seed whatever it draws",
            )

    def judge(self, exported: Exported) -> Candidate:
        """The candidate that an export makes; where it is wrong for a known reason, the repaired one."""
        if exported.path is None or exported.failure is not None:
            failure = exported.failure or Failure("wrote no file")
            reason = f"{failure.reason} ({failure.where})" if failure.where else failure.reason
            return Candidate(exported.route, "refused", exported.seconds, reason=reason)
        try:
            model = self._prepared(exported)
        except SardonyxError as error:
            return Candidate(exported.route, "refused", exported.seconds, reason=error.message)
        candidate = self._judge_model(exported, model)
        if candidate.verdict == "agrees":
            return candidate
        fresh = self._prepared(exported)
        for name, repaired in repairs.candidates(fresh, {**self._description, "dynamic": self._inputs.dynamic}):
            second = self._judge_model(exported, repaired)
            if second.verdict == "agrees":
                return replace(second, repairs=(name,), reason=f"repaired: {name}")
        return candidate

    def _prepared(self, exported: Exported) -> Model:
        assert exported.path is not None, "refusals end before this"
        frozen = exported.notes.get("constants") or {}
        return prepare(exported.path, self._inputs, opset=self._opset, output_names=self._output_names, frozen=frozen)

    def _judge_model(self, exported: Exported, model: Model) -> Candidate:
        fixed = fixed_dimensions(model, self._inputs)
        if fixed:
            return Candidate(exported.route, "wrong", exported.seconds, model, reason="; ".join(fixed))
        answering = in_evaluation(model) if self._training else model
        path = answering.save(self._scratch / f"{exported.route}.candidate.onnx")
        try:
            with Original(Source("onnx", "onnx", path=path), timeout=self._original.timeout) as session:
                try:
                    return self._compare(exported, model, session)
                finally:
                    self.processor_seconds += session.processor_seconds
        except SourceFailed as error:
            reason = error.message.replace(str(path), "the export")
            return Candidate(exported.route, "wrong", exported.seconds, model, reason=reason)

    def _compare(self, exported: Exported, model: Model, session: Original) -> Candidate:
        worst = Candidate(exported.route, "agrees", exported.seconds, model, max_error=0.0, tolerance=0.0)
        taken = {spec.name for spec in model.signature.inputs}
        batches = [
            {name: array for name, array in item.probe.arrays.items() if name in taken} for item in self._answered
        ]
        answers: list[Outputs] = []
        for item, answer in zip(self._answered, session.predict(batches), strict=True):
            if isinstance(answer, Failure):
                reason = f"fails on probe '{item.probe.name}': {answer.reason}"
                return replace(worst, verdict="wrong", reason=reason, max_error=None, counterexample=_proof(item, None))
            answers.append(answer)
        floor = self._floor(model, answers)
        used = -1.0
        for item, answer, allowed, stable in zip(self._answered, answers, floor.tolerances, floor.stable, strict=True):
            found = _excused(
                _judged(item, answer, allowed), item, answer, allowed, self._description.get("decided_by") or {}
            )
            if not stable:
                continue
            if item.probe.on_edge and found.verdict == "mismatch":
                worst = replace(worst, reason=ON_EDGE)
                continue
            if found.used > used:
                used = found.used
                worst = _described(worst, item, answer, found)
            if found.verdict == "mismatch":
                return replace(worst, counterexample=self._shrunk(item, answer, allowed, session))
        frozen = exported.notes.get("constants") or {}
        return replace(
            worst, reason=worst.reason or "; ".join(f"{name} is frozen at {value}" for name, value in frozen.items())
        )

    def _floor(self, model: Model, answers: Sequence[Outputs]) -> Noise:
        """The rounding to allow: the tolerance asked for, or the original's own, and the export's where that shows too little."""
        expected = [item.outputs for item in self._answered]
        if self._asked_tolerance is not None:
            return noise.fixed("given", self._asked_tolerance, [answer.arrays for answer in expected])
        assert self._rounding is not None, "the original was asked first"
        if self._rounding.look(self._doubtful(self._rounding.low, answers)) and bool(
            self._doubtful(self._rounding.floor, answers)
        ):
            self._rounding.look_everywhere()  # nothing is called wrong before all that can be known is known
        if self._rounding.whole:
            return self._rounding.floor
        return noise.larger(self._floor_of_export(model, answers, expected), self._rounding.floor)

    def _floor_of_export(self, model: Model, answers: Sequence[Outputs], expected: Sequence[Outputs]) -> Noise:
        """Measured once for all exports that answer alike to the last bit, as routes of one exporter often do."""
        for others, floor in self._floors:
            if all(map(_identical, answers, others)):
                return floor
        floor = rounding.of_export(model, [item.probe for item in self._answered], answers, expected)
        self._floors.append((answers, floor))
        return floor

    def _doubtful(self, floor: Noise, answers: Sequence[Outputs]) -> list[int]:
        """The probes whose difference takes more than the tolerance."""
        judged = map(_judged, self._answered, answers, floor.tolerances)
        return [index for index, found in enumerate(judged) if found.used > 1]

    def _shrunk(self, item: Answered, got: Outputs, allowed: Sequence[Tolerance], session: Original) -> dict[str, Any]:
        """The counterexample: one row of the probe, if one row is enough to show the fault, else the probe."""
        rows = single_rows(self._inputs.signature, item.probe.arrays)
        for row, expected, answer in zip(rows, self._original.predict(rows), session.predict(rows), strict=True):
            if isinstance(expected, Outputs) and isinstance(answer, Outputs):
                alone = Answered(Probe(item.probe.name, row), expected)
                if _judged(alone, answer, allowed).verdict == "mismatch":
                    return _proof(alone, answer)
        return _proof(item, got)


def _identical(one: Outputs, two: Outputs) -> bool:
    pairs = zip(one.arrays, two.arrays, strict=False)
    return len(one.arrays) == len(two.arrays) and all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs
    )


def _judged(item: Answered, answer: Outputs, allowed: Sequence[Tolerance]) -> Judgement:
    return judge(item.outputs.arrays, answer.arrays, allowed, names=item.outputs.names, same_shape=False)


def _excused(
    found: Judgement, item: Answered, answer: Outputs, allowed: Sequence[Tolerance], decided_by: Mapping[str, str]
) -> Judgement:
    """The judgement with labels forgiven where the scores that decide them tie within the tolerance."""
    names = list(item.outputs.names)
    verdicts = list(found.outputs)
    for label, scores in decided_by.items():
        if label not in names or scores not in names or verdicts[names.index(label)].verdict != "mismatch":
            continue
        at, by = names.index(label), names.index(scores)
        flipped = np.flatnonzero(item.outputs.arrays[at].reshape(-1) != answer.arrays[at].reshape(-1))
        if verdicts[by].verdict != "mismatch" and _ties(item.outputs.arrays[by], flipped, allowed[by]):
            verdicts[at] = replace(
                verdicts[at], verdict="rounding", max_abs=0.0, used=0.0, note=f"{len(flipped)} ties decided otherwise"
            )
    return Judgement(tuple(verdicts))


def _ties(scores: Array, rows: Array, allowed: Tolerance) -> bool:
    """Whether the two best classes of every row are closer than rounding can tell; one column stands for two classes."""
    table = np.asarray(scores, np.float64).reshape(scores.shape[0], -1)[rows]
    if table.shape[1] == 1:
        return bool((np.minimum(np.abs(table), np.abs(table - 0.5)) <= 2 * allowed.at(table)).all())
    best = np.sort(table, axis=1)[:, -2:]
    return bool((best[:, 1] - best[:, 0] <= 2 * allowed.at(best[:, 1])).all())


def _described(candidate: Candidate, item: Answered, answer: Outputs, found: Judgement) -> Candidate:
    """The candidate with what its worst probe shows."""
    worst = max(found.outputs, key=lambda output: output.used)
    error = worst.max_abs if worst.max_abs is not None else math.inf
    if found.verdict != "mismatch":
        return replace(candidate, max_error=error, tolerance=worst.tolerance)
    reason = f"differs on probe '{item.probe.name}' in {worst.name}" + (f": {worst.note}" if worst.note else "")
    proof = _proof(item, answer)
    return replace(
        candidate, verdict="wrong", max_error=error, tolerance=worst.tolerance, reason=reason, counterexample=proof
    )


def _proof(item: Answered, got: Outputs | None) -> dict[str, Any]:
    """What a counterexample file holds: the inputs, what the original answers, and what the export answers."""
    proof: dict[str, Any] = dict(item.probe.arrays)
    proof |= {f"expected.{name}": array for name, array in zip(item.outputs.names, item.outputs.arrays, strict=True)}
    if got is not None:
        proof |= {f"exported.{name}": array for name, array in zip(got.names, got.arrays, strict=True)}
    return proof
