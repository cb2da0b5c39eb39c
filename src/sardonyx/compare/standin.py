"""A graph in place of an original: an export of it that gives the same answers, so that the search can look inside."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sardonyx.agreement import Tolerance, judge
from sardonyx.compare.cases import Case
from sardonyx.compare.sides import OnnxSide
from sardonyx.errors import InputError, RuntimeRefused
from sardonyx.model import Model
from sardonyx.sources import Original, Outputs

OPSET = 18


@dataclass(frozen=True)
class StandIn:
    """The export, and the route that made it."""

    model: Model
    route: str


@contextmanager
def stand_in(original: Original, case: Case, tolerances: Sequence[Tolerance]) -> Iterator[StandIn | None]:
    """The first export that agrees with the original on the case, or None. Its files are there until the block ends.

    It is made for the sizes of this case alone: nothing has to stay open, which is where exporters err most.
    """
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as folder:
        yield next(_agreeing(original, case, tolerances, Path(folder)), None)


def _agreeing(original: Original, case: Case, tolerances: Sequence[Tolerance], folder: Path) -> Iterator[StandIn]:
    for route in original.source.routes():
        path = folder / route / "model.onnx"
        path.parent.mkdir()
        exported = original.export(
            route, path, example=case.inputs, dynamic={}, opset=OPSET, input_names=[], output_names=[], training=False
        )
        if exported.path is None:
            continue
        try:
            side = OnnxSide.of(exported.path).plain  # as the search runs it
            names = [spec.name for spec in side.signature.inputs]
            if set(names) != set(case.inputs):
                continue
            answer = side.predict([case.inputs])[0]
        except (InputError, RuntimeRefused):  # an export may be broken in any way; the next route may not be
            continue
        if isinstance(answer, Outputs) and len(answer.arrays) == len(case.expected.arrays):
            judged = judge(case.expected.arrays, answer.arrays, tolerances, same_shape=False)
            if judged.verdict != "mismatch":
                yield StandIn(side.graph(), route)
