"""Is a candidate still the same model? The input's answers against its own, on several inputs and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from sardonyx import progress
from sardonyx.agreement import Judgement, OutputVerdict, judge
from sardonyx.compare.cases import Case, generated
from sardonyx.compare.graph_noise import measure
from sardonyx.compare.noise import DOUBTFUL, Noise
from sardonyx.compare.optimizer import Doubt, ask, find_doubt
from sardonyx.compare.sides import OnnxSide
from sardonyx.errors import BadData, SourceFailed
from sardonyx.model import Model
from sardonyx.samples import Samples
from sardonyx.signature import Arrays, Signature
from sardonyx.sources import Failure, Outputs

# Batches of the user's data that are compared, and the batch sizes that are tried besides the data's own.
BATCHES = 16
OTHER_BATCHES = (1, 3)
# Seconds to measure rounding in, and the bytes of intermediate tensors that this may hold.
NOISE_MEMORY = 1 << 30


class Gate:
    """Asks the input once, then judges any number of candidates.

    The input is asked without onnxruntime's graph optimiser. Where that changes its answers, `doubt` says so, and another
    runtime has said which of them are right. `signature` says which inputs are made: that of the input, or with the sizes
    that were asked for.
    """

    def __init__(self, reference: Path, signature: Signature, data: Any, seed: int) -> None:
        self._reference = Model.load(reference)
        side = OnnxSide.of(reference)
        self.cases = list(_cases(side.plain, signature, data, seed))
        self._noise: Noise | None = None
        self._own: dict[int, Noise] = {}
        self._usual: list[Outputs | Failure] = []
        with progress.task("running the model with and without onnxruntime's optimiser"):
            self.doubt = self._look(side)

    @property
    def example(self) -> Arrays:
        """The inputs to measure on."""
        return self.cases[0].inputs

    @property
    def level(self) -> str | None:
        """How far onnxruntime may change the input's graph, where its answers are wrong by default."""
        return None if self.doubt is None or self.doubt.level == "all" else self.doubt.level

    def _look(self, side: OnnxSide) -> Doubt | None:
        """What onnxruntime's optimiser changes. The cases are given the optimised answers where those are right."""
        answers = ask(side, [case.inputs for case in self.cases])
        found = find_doubt(side, self.cases, answers, self._judged_case)
        if found is None or found.level == "all":
            self._usual = answers
        if found is not None and found.level == "all":
            self.cases = [
                replace(case, expected=answer) if isinstance(answer, Outputs) else case
                for case, answer in zip(self.cases, answers, strict=True)
            ]
        return found

    def judge(self, candidate: Path) -> tuple[Judgement, str]:
        """The judgement of a candidate, and in words why it is wrong."""
        side, batches = OnnxSide.of(candidate), [case.inputs for case in self.cases]
        with progress.task("comparing"):
            judgement, reason = self.judge_answers(side.predict(batches))
            if reason and side.level is None and not self.judge_answers(ask(side.plain, batches))[1]:
                reason = f"right only without onnxruntime's graph optimiser: {reason}"
        return judgement, reason

    def judge_answers(self, answers: Sequence[Outputs | Failure]) -> tuple[Judgement, str]:
        """The judgement of answers to the cases, and in words why they are wrong."""
        for case, answer in zip(self.cases, answers, strict=True):
            if isinstance(answer, Failure):
                return _failed(case, answer), f"it fails on '{case.name}': {answer.reason}"
        actual = [list(answer.arrays) for answer in answers if isinstance(answer, Outputs)]
        judgement, where = self._judged(actual)
        if judgement.verdict != "mismatch":
            return judgement, ""
        worst = max(judgement.outputs, key=lambda output: output.used)
        error = worst.note or f"off by {worst.error:.3g}, where {worst.tolerance:.3g} is rounding"
        return judgement, f"{worst.name} on '{where}': {error}"

    def _judged(self, actual: Sequence[Sequence[Any]]) -> tuple[Judgement, str]:
        """The worst over all cases, and the name of the worst case. One that rounding alone upsets proves nothing."""
        total, worst, where = Judgement(()), 0.0, ""
        for index, case in enumerate(self.cases):
            judged = self._judged_case(index, actual)
            if judged is None:
                continue
            if judged.used > worst or not where:
                worst, where = judged.used, case.name
            total = total.merge(judged)
            if judged.verdict == "mismatch":
                break
        if not total.outputs and self.cases[0].expected.names:
            raise BadData(
                "nothing could be compared: rounding alone moves the NaN or infinite values of every generated input",
                hint="give inputs that the model is meant for with --data FILE",
            )
        return total, where

    def _judged_case(self, index: int, actual: Sequence[Sequence[Any]]) -> Judgement | None:
        """The judgement of one case; None where rounding alone moves its NaN or infinite values.

        Rounding is measured for the first candidate that differs, and then, by itself, in every case that this leaves in
        doubt: what was measured elsewhere is only an estimate here.
        """
        case, mine = self.cases[index], actual[index]
        for known in (case.expected, *self._usual[index : index + 1]):
            exact = judge(known.arrays, mine, names=known.names) if isinstance(known, Outputs) else None
            if exact is not None and exact.verdict == "equal":
                return exact
        if self._noise is None:
            everything = [item.inputs for item in self.cases], [item.expected.arrays for item in self.cases]
            self._noise = measure(self._reference, *everything, others=actual, memory=NOISE_MEMORY)
        found = self._by(self._noise, index, case, mine)
        if found is not None and found.used < DOUBTFUL:
            return found
        own = self._own.get(index)
        if own is None:
            own = self._own[index] = measure(
                self._reference, [case.inputs], [case.expected.arrays], others=[mine], memory=NOISE_MEMORY
            )
        return self._by(own, 0, case, mine)

    def _by(self, noise: Noise, index: int, case: Case, mine: Sequence[Any]) -> Judgement | None:
        if case.generated and not noise.stable[index]:
            return None
        return judge(case.expected.arrays, mine, noise.tolerances[index], names=case.expected.names)


def _cases(side: OnnxSide, signature: Signature, data: Any, seed: int) -> Iterator[Case]:
    """The user's data first, then what can be made up, of the sizes that the model takes."""
    if data is None:
        yield from generated(side, signature, seed)
        return
    yield from _of_data(side, signature, data, None)
    if _counts_examples(signature):
        for size in OTHER_BATCHES:
            yield from _of_data(side, signature, data, size)
    try:
        yield from generated(side, signature, seed)
    except BadData:  # the model takes no inputs but those that were given
        return


def _of_data(side: OnnxSide, signature: Signature, data: Any, batch: int | None) -> Iterator[Case]:
    samples = Samples.open(data, signature, batch=batch)
    batches = [item.inputs for item in islice(samples, BATCHES if batch is None else 1)]
    for index, (inputs, answer) in enumerate(zip(batches, side.predict(batches), strict=True)):
        name = f"batch {index} of the data" if batch is None else f"{batch} examples of the data"
        if isinstance(answer, Outputs):
            yield Case(name, inputs, answer, generated=False)
        elif batch is None:
            raise SourceFailed(f"the model fails on {name}: {answer.reason}", hint="check the data")


def _counts_examples(signature: Signature) -> bool:
    return any(spec.shape and not isinstance(spec.shape[0], int) for spec in signature.inputs)


def _failed(case: Case, failure: Failure) -> Judgement:
    names = case.expected.names
    return Judgement(
        tuple(OutputVerdict(name, "mismatch", None, None, 0.0, float("inf"), note=failure.reason) for name in names)
    )
