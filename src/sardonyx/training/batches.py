"""Data for training: batches by the names of the graphs, in an order that the seed and the epoch decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx import progress
from sardonyx.errors import BadData
from sardonyx.samples import Batch, Samples
from sardonyx.signature import Array, Arrays
from sardonyx.training.feeding import check_classes, fitted, input_signature, signature
from sardonyx.training.manifest import Label, Manifest

DEFAULT_BATCH = 32


@dataclass(frozen=True)
class Data:
    """Batches again and again. `examples` are in memory and can be shuffled; a stream comes as its function yields it."""

    manifest: Manifest
    samples: Samples
    batch: int
    examples: Arrays | None

    @property
    def count(self) -> int | None:
        """The batches of an epoch, where they are known."""
        return None if self.examples is None else -(-self._length // self._size)

    def epoch(self, shuffle: tuple[int, int] | None = None, skip: int = 0) -> Iterator[Arrays]:
        """The batches of an epoch without the first `skip`; `shuffle` is a seed and the number of the epoch."""
        if self.examples is None:
            for index, batch in enumerate(self.samples):
                if index >= skip:
                    yield fitted(self.manifest, _joined(self.manifest, batch, self.samples.label_hint))
            return
        order = np.arange(self._length)
        if shuffle is not None:
            order = np.random.default_rng(shuffle).permutation(self._length)
        for start in range(skip * self._size, self._length, self._size):
            chosen = order[start : start + self._size]
            yield {name: array[chosen] for name, array in self.examples.items()}

    @property
    def _length(self) -> int:
        assert self.examples is not None
        length = len(next(iter(self.examples.values())))
        return length - length % self._size if self._fixed else length

    @property
    def _size(self) -> int:
        return self._fixed or self.batch

    @property
    def _fixed(self) -> int | None:
        """The batch that the graph was exported for, if it takes no other."""
        first = self.manifest.inputs[0].shape[0] if self.manifest.inputs and self.manifest.inputs[0].shape else None
        return first if isinstance(first, int) else None


def open_data(source: Any, manifest: Manifest, *, batch: int = DEFAULT_BATCH) -> Data:
    """The data of a file, a folder of images, a dict of arrays, or a function that yields whole batches."""
    many = len(manifest.labels) > 1
    samples = Samples.open(source, signature(manifest) if many else input_signature(manifest), batch=batch)
    if samples.count is None:
        return Data(manifest, samples, batch, None)
    with progress.task("read the data", total=samples.count) as advance:
        parts = []
        for found in samples:
            parts.append(_joined(manifest, found, samples.label_hint))
            advance()
    examples = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for label in manifest.labels:
        check_classes(label, examples[label.name])
    return Data(manifest, samples, batch, examples)


def _joined(manifest: Manifest, batch: Batch, label_hint: str) -> Arrays:
    if len(manifest.labels) != 1:
        return batch.inputs
    label = manifest.labels[0]
    if batch.label is None:
        raise BadData("the data has no labels", hint=label_hint)
    size = len(next(iter(batch.inputs.values())))
    return {**batch.inputs, label.name: _target(label, batch.label, size)}


def _target(label: Label, values: Array, size: int) -> Array:
    """Labels in the type and shape of the target: a column where the network gives columns, floats where it gives floats."""
    wanted = np.dtype(label.dtype)
    if values.dtype.kind not in "biuf":
        raise BadData(f"the labels are {values.dtype}, and no numbers", hint="number the classes from 0")
    if label.classes is not None and not np.issubdtype(values.dtype, np.integer):
        rounded = np.nan_to_num(values.astype(np.float64)).round().astype(wanted)
        if not np.array_equal(rounded, values):
            raise BadData(
                f"the labels are {values.dtype}, and class numbers are whole", hint="number the classes from 0"
            )
        values = rounded
    known = [dim for dim in label.shape[1:] if isinstance(dim, int)]
    if values.ndim != len(label.shape) and len(known) == len(label.shape) - 1 and values.size == size * np.prod(known):
        values = values.reshape([size, *known])
    return np.ascontiguousarray(values.astype(wanted, copy=False))
