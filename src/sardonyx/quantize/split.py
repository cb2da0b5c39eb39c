"""The data in two parts that never overlap: one to calibrate and search on, one that only the guard sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from sardonyx.deadline import Deadline
from sardonyx.errors import BadData
from sardonyx.samples import Batch, Samples
from sardonyx.signature import Signature

# Fewer examples than this say nothing about ranges, let alone about a metric.
AT_LEAST = 8
# More calibration data moves no range any more, and is better spent on the guard.
CALIBRATE_AT_MOST = 1024
# Examples of a batch where the model leaves the choice: small, so that the tensors between nodes stay small.
BATCH = 8


@dataclass(frozen=True)
class Part:
    """Some batches of the samples, walked in order as often as needed."""

    samples: Samples
    chosen: frozenset[int]

    def __iter__(self) -> Iterator[Batch]:
        last = max(self.chosen, default=-1)
        walk = enumerate(islice(self.samples, last + 1))
        return (batch for index, batch in walk if index in self.chosen)


@dataclass(frozen=True)
class Data:
    """Both parts, and whether there are labels. `sizes` are the examples of every batch of both.

    `cut` says that there may be more data than there was time to look at.
    """

    calibration: Part
    held_out: Part
    labelled: bool
    sizes: tuple[int, ...]
    cut: bool = False

    @property
    def examples(self) -> int:
        return sum(self.sizes)

    @property
    def held_out_examples(self) -> int:
        return sum(self.sizes[index] for index in self.held_out.chosen)

    def judged_by(self, examples: int, *, seed: int) -> Data:
        """With at most so many held-out examples, drawn by the seed; at least one batch."""
        order = np.random.default_rng(seed).permutation(sorted(self.held_out.chosen))
        taken = np.cumsum([self.sizes[index] for index in order])
        count = max(1, int(np.searchsorted(taken, examples, side="right")))
        chosen = frozenset(int(index) for index in order[:count])
        return replace(self, held_out=replace(self.held_out, chosen=chosen))


def opened(source: Any, signature: Signature, *, seed: int, limit: Deadline | None = None) -> Data:
    """The data of any kind that `Samples` opens, split by the seed. Every batch is looked at once, or those before the limit."""
    samples = Samples.open(source, signature, batch=BATCH)
    if samples.examples is not None and samples.examples < AT_LEAST * BATCH * 2:
        samples = Samples.open(source, signature, batch=1)
    sizes, labelled, cut = _sizes(samples, limit)
    examples = sum(sizes)
    if examples < AT_LEAST or len(sizes) < 2:
        raise BadData(
            f"the data holds {examples} examples in {len(sizes)} batches, and quantize needs at least {AT_LEAST} in 2",
            hint="half of them calibrate and half of them judge; a few hundred are better",
        )
    calibration = _calibration(sizes, seed)
    held_out = frozenset(range(len(sizes))) - calibration
    return Data(Part(samples, calibration), Part(samples, held_out), labelled, tuple(sizes), cut)


def _calibration(sizes: list[int], seed: int) -> frozenset[int]:
    """Batches drawn at random: half of the examples, or fewer where that is more than enough."""
    wanted = min(sum(sizes) // 2, CALIBRATE_AT_MOST)
    order = np.random.default_rng(seed).permutation(len(sizes))
    taken = np.cumsum([sizes[index] for index in order])
    count = int(np.clip(np.searchsorted(taken, wanted, side="right"), 1, len(sizes) - 1))
    return frozenset(int(index) for index in order[:count])


def _sizes(samples: Samples, limit: Deadline | None) -> tuple[list[int], bool, bool]:
    """The examples of every batch, whether all of them have labels, and whether there was no time for more."""
    sizes, labels, cut = list[int](), list[bool](), False
    for batch in samples:
        sizes.append(batch.examples)
        labels.append(batch.label is not None)
        cut = limit is not None and limit.passed and len(sizes) > 1 and sum(sizes) >= AT_LEAST
        if cut:
            break
    if any(labels) and not all(labels):
        raise BadData("some batches have labels and some have none", hint="give labels with every batch or with none")
    return sizes, all(labels), cut
