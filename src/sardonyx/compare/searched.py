"""Cases that a search makes up: inputs that may tell the candidate from its reference, a group at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sardonyx.compare.cases import Case, ground
from sardonyx.compare.probes import around
from sardonyx.compare.sides import OnnxSide, OriginalSide, Pairing, Side
from sardonyx.falsify import Answered, Budget, Hints, Search
from sardonyx.falsify.description import under_names
from sardonyx.falsify.estimator import estimator_probes
from sardonyx.falsify.graph_goals import GraphGoals
from sardonyx.model import Model
from sardonyx.signature import Arrays, Signature
from sardonyx.sources import Branch, Failure, Outputs, Trial

# Bytes of weights beyond which a graph is not written again to watch its conditions.
WATCHED_BYTES = 300_000_000
# Rounds of the search that are judged together: measuring the noise floor has a cost of its own each time.
TOGETHER = 64
BUDGET = Budget(seconds=5.0)


@dataclass
class Watched:
    """The candidate, as the search asks it."""

    side: OnnxSide
    pairing: Pairing
    scratch: Path
    stack: ExitStack
    _goals: GraphGoals | None = None
    _model: Model | None = None

    @property
    def model(self) -> Model:
        if self._model is None:
            self._model = self.side.graph()
        return self._model

    @property
    def goals(self) -> GraphGoals | None:
        """The conditions of the candidate's graph, asked with its own names."""
        if self._goals is None and self.model.weight_bytes() <= WATCHED_BYTES and self._same_names():
            self._goals = GraphGoals(self.model, self.scratch / "watched.onnx", timeout=300)
            self.stack.callback(self._goals.close)
        return self._goals

    def predict(self, batches: Sequence[Arrays]) -> list[Outputs | Failure]:
        return self.side.predict([self.pairing.inputs_for_candidate(batch) for batch in batches])

    def _same_names(self) -> bool:
        return all(mine == theirs for mine, theirs in self.pairing.inputs.items())


@dataclass
class Reach:
    """How far the search came, known once it has ended."""

    unreached: list[tuple[Branch, bool]] = field(default_factory=list)
    skipped: int = 0


def searched_cases(
    theirs: Side, ours: OnnxSide, pairing: Pairing, signature: Signature, seed: int, reach: Reach
) -> Iterator[list[Case]]:
    """Groups of cases: the fixed kinds first, then what is found on the way into the code and the graphs."""
    sizes, probe, named = ground(theirs, signature, seed)
    description = under_names(theirs.original.describe(), named) if isinstance(theirs, OriginalSide) else {}
    with TemporaryDirectory(prefix="sardonyx-") as scratch, ExitStack() as stack:
        watched = Watched(ours, pairing, Path(scratch), stack)
        search = Search(
            lambda batches, limit: explore(theirs, batches, limit), lambda: branches(theirs), named, probe.arrays,
            Hints.of(description), seed=seed, budget=BUDGET,
        )  # fmt: skip
        extra = [*around(signature, sizes, seed), *estimator_probes(named, probe.arrays, description, seed)]
        first = search.first(extra)
        assert not isinstance(first, Failure), "the ground was answered before"
        yield [_case(item) for item in first]
        waiting: list[Answered] = []
        for group in search.rounds(lambda: [watched]):
            waiting += group
            if len(waiting) >= TOGETHER:
                yield [_case(item) for item in waiting]
                waiting = []
        yield [_case(item) for item in waiting]
        reach.unreached, reach.skipped = search.unreached(), search.skipped


def explore(side: Side, batches: Sequence[Arrays], limit: float) -> list[Trial]:
    """The reference's answers, with what they reached where it is code."""
    if isinstance(side, OriginalSide):
        return side.original.explore(batches, limit=limit or None)
    started = time.process_time()
    # onnxruntime has operators that end the whole process on an empty dimension.
    whole = [all(array.size for array in batch.values()) for batch in batches]
    answers = iter(side.predict([batch for batch, ok in zip(batches, whole, strict=True) if ok]))
    each = (time.process_time() - started) / max(1, len(batches))
    return [Trial(next(answers) if ok else Failure("an empty dimension"), seconds=each) for ok in whole]


def branches(side: Side) -> tuple[list[Branch], list[Any]]:
    return side.original.branches() if isinstance(side, OriginalSide) else ([], [])


def _case(item: Answered) -> Case:
    probe = item.probe
    return Case(
        probe.name, probe.arrays, item.outputs, generated=True, soft=probe.soft, on_edge=probe.on_edge, item=item
    )
