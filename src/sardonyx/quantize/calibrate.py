"""The histogram of every watched tensor over the calibration data, in bounded memory and one walk for most models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from sardonyx import deadline, progress
from sardonyx.deadline import Deadline
from sardonyx.errors import BadData
from sardonyx.model import Model
from sardonyx.quantize.histogram import Histogram
from sardonyx.quantize.prepare import copied
from sardonyx.run.session import Session, Settings
from sardonyx.samples import Batch
from sardonyx.signature import Array

# Bytes of watched tensors that one run may give at a time. onnxruntime holds them twice.
AT_ONCE = 192 << 20
# Examples that are walked however long it takes.
ENOUGH = 8

Histograms = dict[str, Histogram]


@dataclass
class Walk:
    """Batches, as many of them as there is time for. `examples` are those that every walk has seen."""

    batches: Iterable[Batch]
    limit: Deadline | None = None
    examples: int = 0

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def once(self, share: float) -> Iterator[Batch]:
        """The batches, until this share of the time that is left has passed."""
        end, seen = None if self.limit is None else self.limit.share(share), 0
        for batch in self.batches:
            deadline.check()
            yield batch
            seen += batch.examples
            if end is not None and end.passed and seen >= ENOUGH:
                break
        self.examples = min(seen, self.examples or seen)


def histograms(
    model: Model, names: Sequence[str], batches: Iterable[Batch], settings: Settings, *, at_once: int = AT_ONCE
) -> Histograms:
    """The histogram of each named tensor. Memory is the model's, one group of tensors and the bins."""
    found: Histograms = {name: Histogram() for name in names}
    for name, value in observed(model, names, batches, settings, at_once=at_once):
        found[name].add(value)
    _refuse_strange(found)
    return found


def observed(
    model: Model, names: Sequence[str], batches: Iterable[Batch], settings: Settings, *, at_once: int = AT_ONCE
) -> Iterator[tuple[str, Array]]:
    """Every value of the named tensors. `batches` is walked once per group of tensors that fit into `at_once` bytes.

    Batches may differ in shape. Those of a `Walk` that has a limit end early: each group gets its share of the time.
    """
    walk = batches if isinstance(batches, Walk) else Walk(batches)
    groups = _groups(model, names, batches, settings, at_once)
    for index, group in enumerate(groups):
        inside = [name for name in group if name in model.signature.input_names]
        between = [name for name in group if name not in inside]
        session = Session(exposing(model, between), settings) if between else None
        with progress.task(f"calibrate {index + 1} of {len(groups)}") as advance:
            for batch in walk.once(1 / (len(groups) - index)):
                values = {name: batch.inputs[name] for name in inside}
                values |= session.run_fitted(batch.inputs) if session is not None else {}
                for item in values.items():
                    deadline.check()  # what is done with a tensor may take long too
                    yield item
                advance()


def exposing(model: Model, names: Sequence[str]) -> Model:
    """The model with these tensors, and nothing else, as its outputs."""
    own = copied(model)
    values = {value.name: value for node in own.ir.graph for value in node.outputs}
    own.ir.graph.outputs[:] = [values[name] for name in names]
    return own


def _groups(
    model: Model, names: Sequence[str], batches: Iterable[Batch], settings: Settings, at_once: int
) -> list[list[str]]:
    """The tensors in groups whose values fit into `at_once` bytes for the largest of the first few batches."""
    sizes = dict.fromkeys(names, 0)
    for batch in _first(batches, 3):
        for name, size in _sizes(model, names, batch, settings).items():
            sizes[name] = max(sizes[name], size)
    groups: list[list[str]] = [[]]
    filled = 0
    for name in names:
        if groups[-1] and filled + sizes[name] > at_once:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += sizes[name]
    return groups


def _sizes(model: Model, names: Sequence[str], batch: Batch, settings: Settings) -> dict[str, int]:
    """The bytes of each tensor for this batch, from `Shape` nodes: the tensors themselves are never fetched."""
    own = copied(model)
    values = {value.name: value for node in own.ir.graph for value in node.outputs}
    shapes = []
    for name in names:
        if name in values:
            node = ir.node("Shape", [values[name]], name=f"{name}_shape_of")
            node.outputs[0].name = f"{name}_shape_of"
            node.outputs[0].dtype, node.outputs[0].shape = ir.DataType.INT64, ir.Shape([None])
            own.ir.graph.append(node)
            shapes.append(node.outputs[0])
    if not shapes:  # all of them are inputs, which are there already
        return {}
    own.ir.graph.outputs[:] = shapes
    found = Session(own, settings).run_fitted(batch.inputs)
    return {name.removesuffix("_shape_of"): int(np.prod(shape)) * 4 for name, shape in found.items()}


def _first(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
    for index, batch in enumerate(batches):
        if index == count:
            return
        yield batch


def _refuse_strange(found: Histograms) -> None:
    silent = [name for name, histogram in found.items() if histogram.strange and not histogram.total]
    if silent:
        raise BadData(
            f"the model gives only NaN or infinity at {silent[0]} on the calibration data",
            hint="check the values of the data, or run sardonyx check on the model",
        )
