"""Is an export right? The original's answers against the export's, within the rounding that was measured on the original."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.agreement import Judgement, OutputVerdict, Tolerance, judge
from sardonyx.compare import noise
from sardonyx.compare.noise import Noise
from sardonyx.compare.optimizer import LOWER
from sardonyx.compare.sides import PLAIN
from sardonyx.compare.source_noise import SourceNoise
from sardonyx.compare.steps import Steps, generic
from sardonyx.convert import repairs
from sardonyx.convert.candidate import Candidate, fixed_dimensions, prepare
from sardonyx.convert.contender import Contender
from sardonyx.convert.counterexample import proof, shrink
from sardonyx.convert.excuses import is_slight, ties
from sardonyx.convert.inputs import Inputs
from sardonyx.convert.spread import DRAWS, draws, spread_fault
from sardonyx.errors import SardonyxError, SourceFailed
from sardonyx.falsify import Answered
from sardonyx.model import Model
from sardonyx.report import Finding
from sardonyx.run.session import LEVELS, store_level
from sardonyx.sources import Exported, Failure, Original, Outputs

ON_EDGE = "differs only where an input lies exactly on a threshold, or equally far from two neighbours"
# A tolerance above this share of an output's own size proves nothing about it.
VAIN = 0.1
# An export may answer in float32 where the original answers in float64: then it has the digits of float32.
IN_SINGLE = Tolerance(relative=16 * 2.0**-24)
# Findings about soft probes that one export may have.
SOFT_FINDINGS = 3


class Evaluation:
    """Judges exports on the original's answers, which `judge` may be given in several goes."""

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
        ignored: Sequence[str] = (),
    ) -> None:
        self._original = original
        self._inputs = inputs
        self._description = description
        self._scratch = scratch
        self._opset = opset
        self._output_names = output_names
        self._training = training
        self._ignored = frozenset(ignored)  # outputs that are random, which are compared by their spread
        self._allowed = Tolerance(atol or 0.0, rtol or 0.0)
        self._noise: SourceNoise | None = None
        self._answered: list[Answered] = []
        self._steps = Steps(original)
        self._proven: set[str] = set()  # outputs for which some tolerance was small enough to prove something
        self.processor_seconds = 0.0  # of the exports' own processes

    @property
    def probe_names(self) -> list[str]:
        """The probes that the original itself could answer."""
        return [item.probe.name for item in self._answered]

    def require_repeatable(self) -> None:
        """Raises if the source gives another model each time it is opened: then no export can be right."""
        if self._original.source.live or not self._answered:
            return
        first = self._answered[0]
        with Original(self._original.source, timeout=self._original.timeout) as again:
            (answer,) = again.predict([first.probe.arrays])
        loose = [Tolerance(relative=1e-3)] * len(first.outputs.arrays)
        if isinstance(answer, Failure) or self._judged(first, answer, loose).verdict == "mismatch":
            raise SourceFailed(
                f"{self._original.source} builds another model each time it is opened",
                hint="give its trained weights with --weights, or seed whatever it draws",
            )

    def enter(self, exported: Exported) -> Contender | Candidate:
        """The export, open to be asked; a candidate that is out already where the exporter refused or the runtime does."""
        if exported.path is None or exported.failure is not None:
            failure = exported.failure or Failure("wrote no file")
            reason = f"{failure.reason} ({failure.where})" if failure.where else failure.reason
            return Candidate(exported.route, "refused", exported.seconds, reason=reason)
        try:
            model = self._prepared(exported)
        except SardonyxError as error:
            return Candidate(exported.route, "refused", exported.seconds, reason=error.message)
        return self._open(exported, model)

    def judge(self, contender: Contender, items: Sequence[Answered]) -> None:
        """Holds the export's answers against these of the original. A mismatch ends its race, with a counterexample."""
        answers: list[Outputs] = []
        asked: list[Answered] = []
        for item, answer in zip(items, contender.predict([item.probe.arrays for item in items]), strict=True):
            if isinstance(answer, Outputs):
                answers.append(answer)
                asked.append(item)
            elif item.probe.soft:
                self._remark(contender, item, f"the export fails: {answer.reason}")
            else:
                self._fail(contender, item, answer)
                return
        floor = self._floor(asked, answers)
        for item, answer, allowed, stable in zip(asked, answers, floor.tolerances, floor.stable, strict=True):
            if not stable:
                continue
            judged = self._excused(self._judged(item, answer, allowed), item, answer, allowed)
            if judged.verdict == "mismatch" and not item.probe.on_edge and not item.probe.soft:
                judged = self._steps.forgive(judged, item, answer, allowed)
            if judged.verdict == "mismatch" and (item.probe.on_edge or self._may_tie(item)):
                contender.candidate = replace(contender.candidate, reason=contender.candidate.reason or ON_EDGE)
            elif judged.verdict == "mismatch" and item.probe.soft:
                if not is_slight(judged, item):
                    self._remark(contender, item, _difference(judged))
            else:
                self._describe(contender, item, answer, judged, allowed)
            if not contender.racing:
                return

    def _may_tie(self, item: Answered) -> bool:
        """Whether neighbours may be equally far: the original counts some, and its inputs are whole numbers or alike."""
        return bool(self._description.get("ties")) and not generic(item.probe.arrays)

    def hear(self, items: Sequence[Answered]) -> None:
        """Takes notice of the original's answers, before they are judged by."""
        self._answered += items
        if self._noise is None and items:
            self._noise = SourceNoise(self._original, self._inputs.signature, items)

    def repaired(self, fallen: Contender | Candidate, exported: Exported) -> Contender | None:
        """The first repaired copy of an export that is wrong for a known reason and agrees on all answers so far."""
        candidate = fallen.candidate if isinstance(fallen, Contender) else fallen
        if candidate.verdict != "wrong" or (isinstance(fallen, Contender) and fallen.mended):
            return None
        types = {
            name: str(np.asarray(array).dtype)
            for name, array in zip(self._answered[0].outputs.names, self._answered[0].outputs.arrays, strict=True)
        }
        said = {**self._description, "dynamic": self._inputs.dynamic, "output_types": types}
        for name, model in repairs.candidates(self._prepared(exported), said):
            opened = self._open(exported, model, repairs=(name,))
            if isinstance(opened, Candidate):
                continue
            self.judge(opened, self._answered)
            if opened.racing:
                return opened
            self.leave(opened)
        return self._at_lower_level(fallen, exported)

    def _at_lower_level(self, fallen: Contender | Candidate, exported: Exported) -> Contender | None:
        """The export with the highest level of onnxruntime's optimiser at which it agrees, where the optimiser is wrong."""
        fell_on = [fallen.fell_on] if isinstance(fallen, Contender) and fallen.fell_on is not None else self._answered
        for level, items in ((PLAIN, fell_on), *((level, self._answered) for level in LOWER)):
            model = self._prepared(exported)
            store_level(model, level)
            opened = self._open(exported, model)
            if isinstance(opened, Candidate):
                return None
            self.judge(opened, items)
            if opened.racing and items is self._answered:
                opened.candidate = replace(opened.candidate, findings=(*opened.candidate.findings, _at_level(level)))
                return opened
            self.leave(opened)
            if items is fell_on and not opened.racing:  # the export itself is wrong
                return None
        return None

    def judge_spread(self, contender: Contender) -> None:
        """Holds the outputs that are random against the original's by their mean and spread over many draws."""
        if not self._ignored or not contender.racing:
            return
        example = self._answered[0].probe.arrays
        theirs, mine = (side.predict([example] * DRAWS) for side in (self._original, contender))
        for name in sorted(self._ignored):
            fault = spread_fault(draws(theirs, name), draws(mine, name, self._answered[0].outputs.names))
            if fault:
                reason = f"{name} is random in the original, and {fault}"
                contender.candidate = replace(contender.candidate, verdict="wrong", reason=reason, max_error=None)
                return

    def leave(self, contender: Contender) -> None:
        """Ends the export's process."""
        self.processor_seconds += contender.processor_seconds
        contender.close()

    def unproven(self) -> list[str]:
        """The outputs that no answer proves anything about: rounding alone moves them by much of their size."""
        names = self._answered[0].outputs.names if self._answered else ()
        return [name for name in names if name not in self._proven and name not in self._ignored]

    def _prepared(self, exported: Exported) -> Model:
        assert exported.path is not None, "refusals end before this"
        frozen = exported.notes.get("constants") or {}
        return prepare(exported.path, self._inputs, opset=self._opset, output_names=self._output_names, frozen=frozen)

    def _open(self, exported: Exported, model: Model, *, repairs: tuple[str, ...] = ()) -> Contender | Candidate:
        fixed = fixed_dimensions(model, self._inputs)
        if fixed:
            return Candidate(exported.route, "wrong", exported.seconds, model, reason="; ".join(fixed), repairs=repairs)
        timeout = self._original.timeout
        try:
            return Contender(exported, model, self._scratch, training=self._training, timeout=timeout, repairs=repairs)
        except SourceFailed as error:
            reason = error.message.replace(str(self._scratch / f"{exported.route}.candidate.onnx"), "the export")
            return Candidate(exported.route, "wrong", exported.seconds, model, reason=reason, repairs=repairs)

    def _floor(self, items: Sequence[Answered], answers: Sequence[Outputs]) -> Noise:
        """The original's own rounding, and what the user allows on top of it."""
        assert self._noise is not None, "the original was heard first"

        def used(floor: Noise) -> list[float]:
            judged = map(self._judged, items, answers, noise.added(floor, self._allowed).tolerances)
            return [0.0 if item.probe.on_edge else found.used for item, found in zip(items, judged, strict=True)]

        return noise.added(self._noise.of(items, used), self._allowed)

    def _judged(self, item: Answered, answer: Outputs, allowed: Sequence[Tolerance]) -> Judgement:
        fitting = [
            one.plus(IN_SINGLE) if _is_single(mine) and not _is_single(theirs) else one
            for one, theirs, mine in zip(allowed, item.outputs.arrays, answer.arrays, strict=False)
        ]
        allowed = [*fitting, *allowed[len(fitting) :]]
        found = judge(item.outputs.arrays, answer.arrays, allowed, names=item.outputs.names, same_shape=False)
        kept = [output for output in found.outputs if output.name not in self._ignored]
        return Judgement(tuple(_narrowed(output, item, answer) for output in kept))

    def _excused(self, found: Judgement, item: Answered, answer: Outputs, allowed: Sequence[Tolerance]) -> Judgement:
        """The judgement with labels forgiven where the scores that decide them tie within the tolerance."""
        names = list(item.outputs.names)
        verdicts = {output.name: output for output in found.outputs}
        for label, scores in (self._description.get("decided_by") or {}).items():
            if label not in verdicts or scores not in verdicts or verdicts[label].verdict != "mismatch":
                continue
            at, by = names.index(label), names.index(scores)
            flipped = np.flatnonzero(item.outputs.arrays[at].reshape(-1) != answer.arrays[at].reshape(-1))
            if verdicts[scores].verdict != "mismatch" and ties(item.outputs.arrays[by], flipped, allowed[by]):
                note = f"{len(flipped)} ties decided otherwise"
                verdicts[label] = replace(verdicts[label], verdict="rounding", max_abs=0.0, used=0.0, note=note)
        return Judgement(tuple(verdicts.values()))

    def _describe(
        self, contender: Contender, item: Answered, answer: Outputs, found: Judgement, allowed: Sequence[Tolerance]
    ) -> None:
        """Notes what a probe shows, and ends the race where it is a mismatch."""
        self._proven |= {output.name for output in found.outputs if output.weak <= VAIN or np.isinf(output.weak)}
        if found.verdict != "mismatch":
            if found.used > contender.used and found.outputs and not item.probe.soft:
                worst = max(found.outputs, key=lambda output: output.used)
                contender.used = found.used
                contender.candidate = replace(contender.candidate, max_error=worst.error, tolerance=worst.tolerance)
            return
        contender.candidate = _wrong(contender.candidate, item, answer, found)
        contender.fell_on = item

        def differs(alone: Answered, other: Outputs) -> bool:
            judged = self._excused(self._judged(alone, other, allowed), alone, other, allowed)
            return judged.verdict == "mismatch"

        smaller, other = shrink(self._inputs.signature, item, answer, self._original, contender, differs)
        contender.candidate = replace(contender.candidate, counterexample=proof(smaller, other))

    def _fail(self, contender: Contender, item: Answered, answer: Failure) -> None:
        reason = f"fails on probe '{item.probe.name}': {answer.reason}"
        contender.fell_on = item
        contender.candidate = replace(
            contender.candidate, verdict="wrong", reason=reason, max_error=None, counterexample=proof(item, None)
        )

    def _remark(self, contender: Contender, item: Answered, difference: str) -> None:
        """A difference on NaN, infinities, nothing or huge numbers, which the original does not treat in any way of its own."""
        if sum(finding.code == "edge-values" for finding in contender.candidate.findings) < SOFT_FINDINGS:
            finding = Finding(
                "warning", "edge-values", item.probe.name, f"on '{item.probe.name}' the export differs: {difference}",
                "if your inputs can be like this, check them before the model",
            )  # fmt: skip
            contender.candidate = replace(contender.candidate, findings=(*contender.candidate.findings, finding))


def _is_single(array: Any) -> bool:
    return np.asarray(array).dtype == np.float32


def _at_level(level: str) -> Finding:
    name = LEVELS[level].name
    return Finding(
        "warning", "runtime-optimizer", "", "onnxruntime's graph optimiser changes this model's answers; it agrees at the "
        f"level '{level}', which is written into it and which sardonyx follows",
        f"open its sessions elsewhere with graph_optimization_level = GraphOptimizationLevel.{name}",
    )  # fmt: skip


def _narrowed(found: OutputVerdict, item: Answered, answer: Outputs) -> OutputVerdict:
    """The verdict of an output, which is a mismatch where the export answers in a smaller integer type."""
    if found.verdict == "mismatch" or found.name not in item.outputs.names:
        return found
    place = item.outputs.names.index(found.name)
    theirs, mine = np.asarray(item.outputs.arrays[place]).dtype, np.asarray(answer.arrays[place]).dtype
    if theirs.kind in "iu" and mine.kind in "iu" and mine.itemsize < theirs.itemsize:
        note = f"type {mine} where the original has {theirs}, so that large numbers overflow"
        return replace(found, verdict="mismatch", used=math.inf, note=note)
    return found


def _wrong(candidate: Candidate, item: Answered, answer: Outputs, found: Judgement) -> Candidate:
    """The candidate with what the probe shows that it is wrong on."""
    worst = max(found.outputs, key=lambda output: output.used)
    reason = f"differs on probe '{item.probe.name}' in {worst.name}" + (f": {worst.note}" if worst.note else "")
    error = worst.error if worst.max_abs is not None else math.inf
    return replace(
        candidate, verdict="wrong", max_error=error, tolerance=worst.tolerance, reason=reason,
        counterexample=proof(item, answer),
    )  # fmt: skip


def _difference(found: Judgement) -> str:
    worst = max(found.outputs, key=lambda output: output.used)
    return f"{worst.name}: {worst.note}" if worst.note else f"{worst.name} by {worst.max_abs:g}"
