"""What to compare on: inputs with the reference's answers, from the user's data or generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from sardonyx.compare.probes import around, grounds, with_names
from sardonyx.compare.sides import Side
from sardonyx.dataset import Dataset
from sardonyx.errors import BadData, SourceFailed
from sardonyx.falsify.probe import Answered, Probe
from sardonyx.progress import task
from sardonyx.samples import Samples
from sardonyx.signature import Arrays, Signature
from sardonyx.sources import Failure, Outputs, Trial

# Cases held in memory at once, with the answers of both sides.
CHUNK = 16


@dataclass(frozen=True)
class Case:
    """Inputs, what the reference answers, and whether we made them up."""

    name: str
    inputs: Arrays
    expected: Outputs
    generated: bool
    soft: bool = False  # NaN, infinities or huge numbers, for which the reference has no code of its own
    on_edge: bool = False  # at thresholds, where one unit in the last place changes the answer
    item: Answered | None = None


def data_cases(side: Side, signature: Signature, data: Dataset, *, precise: bool = False) -> Iterator[list[Case]]:
    """Cases of the user's data, a few at a time. Data that the reference refuses is an error.

    With `precise` the reference gets the floats of the data as wide as they are.
    """
    samples = Samples.open(data, signature, precise=precise)
    walk = (Probe(f"batch {index}", batch.inputs) for index, batch in enumerate(samples))
    while probes := list(islice(walk, CHUNK)):
        with task("running the reference"):
            answers = side.predict([probe.arrays for probe in probes])
        cases = []
        for probe, answer in zip(probes, answers, strict=True):
            if isinstance(answer, Failure):
                raise SourceFailed(
                    f"the reference fails on {probe.name} of the data: {answer.reason}", hint="check the data"
                )
            item = Answered(probe, answer, Trial(answer))
            cases.append(Case(probe.name, probe.arrays, answer, generated=False, item=item))
        yield cases


def generated(side: Side, signature: Signature, seed: int) -> list[Case]:
    """A few cases around the first sizes that the reference accepts."""
    sizes, probe, _, first = _ground(side, signature, seed)
    return [
        Case(probe.name, probe.arrays, first, generated=True),
        *_more(side, around(signature, sizes, seed)),
    ]


def ground(side: Side, signature: Signature, seed: int) -> tuple[dict[str, int], Probe, Signature]:
    """The first sizes that the reference accepts, inputs of these sizes, and the signature with a name for every dimension."""
    return _ground(side, signature, seed)[:3]


def _ground(side: Side, signature: Signature, seed: int) -> tuple[dict[str, int], Probe, Signature, Outputs]:
    refusal = ""
    with task("running the reference on generated inputs"):
        for sizes, probe in grounds(signature, seed):
            first = side.predict([probe.arrays])[0]
            if isinstance(first, Outputs):
                return sizes, probe, with_names(signature)[0], first
            refusal = refusal or first.reason
    raise BadData(
        f"the reference accepts none of the generated inputs: {refusal}",
        hint="give inputs that it takes with --data FILE",
    )


def _more(side: Side, probes: list[Probe]) -> Iterator[Case]:
    for probe, answer in zip(probes, side.predict([probe.arrays for probe in probes]), strict=True):
        if isinstance(answer, Outputs):
            yield Case(probe.name, probe.arrays, answer, generated=True)
