"""What to compare on: inputs with the reference's answers, from the user's data or generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from sardonyx.compare.probes import Probe, around, grounds
from sardonyx.compare.sides import Side
from sardonyx.dataset import Dataset
from sardonyx.errors import BadData, SourceFailed
from sardonyx.progress import task
from sardonyx.samples import Samples
from sardonyx.signature import Arrays, Signature
from sardonyx.sources import Failure, Outputs

# Cases held in memory at once, with the answers of both sides.
CHUNK = 16


@dataclass(frozen=True)
class Case:
    """Inputs, what the reference answers, and whether we made them up."""

    name: str
    inputs: Arrays
    expected: Outputs
    generated: bool


def chunks(
    side: Side, signature: Signature, data: Dataset | None, seed: int, *, precise: bool = False
) -> Iterator[list[Case]]:
    """Cases, a few at a time. Generated inputs that the reference refuses are left out; data that it refuses is an error.

    With `precise` the reference gets the floats of the data as wide as they are.
    """
    if data is None:
        yield generated(side, signature, seed)
        return
    samples = Samples.open(data, signature, precise=precise)
    walk = (Probe(f"batch {index}", batch.inputs) for index, batch in enumerate(samples))
    while probes := list(islice(walk, CHUNK)):
        with task("running the reference"):
            answers = side.predict([probe.inputs for probe in probes])
        cases = []
        for probe, answer in zip(probes, answers, strict=True):
            if isinstance(answer, Failure):
                raise SourceFailed(
                    f"the reference fails on {probe.name} of the data: {answer.reason}", hint="check the data"
                )
            cases.append(Case(probe.name, probe.inputs, answer, generated=False))
        yield cases


def generated(side: Side, signature: Signature, seed: int) -> list[Case]:
    """Cases around the first sizes that the reference accepts."""
    refusal = ""
    with task("running the reference on generated inputs"):
        for sizes, probe in grounds(signature, seed):
            first = side.predict([probe.inputs])[0]
            if isinstance(first, Outputs):
                return [
                    Case(probe.name, probe.inputs, first, generated=True),
                    *_more(side, around(signature, sizes, seed)),
                ]
            refusal = refusal or first.reason
    raise BadData(
        f"the reference accepts none of the generated inputs: {refusal}",
        hint="give inputs that it takes with --data FILE",
    )


def _more(side: Side, probes: list[Probe]) -> Iterator[Case]:
    for probe, answer in zip(probes, side.predict([probe.inputs for probe in probes]), strict=True):
        if isinstance(answer, Outputs):
            yield Case(probe.name, probe.inputs, answer, generated=True)
