"""How requests become one run and its outputs become theirs again: row by row, and padded where that is asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from sardonyx.signature import Array, Signature, TensorSpec

Shapes = Sequence[tuple[int, ...]]
# Requests share a run only with those of a like length: up to twice as much, so that no one pays for a far longer one.
_SMALLEST_BUCKET = 8


class Join:
    """Puts inputs together along the first axis. The dimensions called `pad` may differ, and are filled up with zeros."""

    def __init__(self, signature: Signature, pad: Iterable[str] = ()) -> None:
        names = set(pad)
        self._inputs = [_axes(spec, names) for spec in signature.inputs]
        self._outputs = {spec.name: _axes(spec, names) for spec in signature.outputs}
        self.pads = any(self._inputs)

    def key(self, outputs: tuple[str, ...], shapes: Shapes) -> Hashable:
        """What requests must have in common to share a run."""
        if not self.pads:
            return outputs, tuple([shape[1:] for shape in shapes])
        return outputs, tuple(
            tuple(_bucket(size) if axis in axes else size for axis, size in enumerate(shape) if axis)
            for shape, axes in zip(shapes, self._inputs, strict=True)
        )

    def together(self, requests: Sequence[Sequence[Array]]) -> list[Array]:
        """The inputs of all requests as those of one."""
        columns = list(zip(*requests, strict=True))
        if not self.pads:
            return [np.concatenate(arrays) for arrays in columns]
        return [
            np.concatenate([_filled(array, axes, _longest(arrays, axes)) for array in arrays])
            for arrays, axes in zip(columns, self._inputs, strict=True)
        ]

    def apart(
        self, names: Sequence[str], outputs: Sequence[Array], requests: Sequence[Sequence[Array]]
    ) -> list[list[Array]]:
        """Each request's rows of every output, without what was filled up."""
        rows = [len(inputs[0]) for inputs in requests]
        if any(output.ndim == 0 or len(output) != sum(rows) for output in outputs):
            raise ValueError("the model does not give one row per row")
        answers, start = [], 0
        for count, inputs in zip(rows, requests, strict=True):
            parts = [output[start : start + count] for output in outputs]
            answers.append(self._cut(names, parts, inputs) if self.pads else parts)
            start += count
        return answers

    def _cut(self, names: Sequence[str], parts: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
        sizes = {
            dim: array.shape[axis]
            for array, axes in zip(inputs, self._inputs, strict=True)
            for axis, dim in axes.items()
        }
        return [_shortened(part, self._outputs[name], sizes) for name, part in zip(names, parts, strict=True)]


def _axes(spec: TensorSpec, names: set[str]) -> dict[int, str]:
    """The axes behind the first that have one of the names."""
    return {axis: dim for axis, dim in enumerate(spec.shape or ()) if axis and isinstance(dim, str) and dim in names}


def _bucket(size: int) -> int:
    return max(_SMALLEST_BUCKET, 1 << (size - 1).bit_length()) if size else 0


def _longest(arrays: Sequence[Array], axes: dict[int, str]) -> dict[int, int]:
    return {axis: max(array.shape[axis] for array in arrays) for axis in axes}


def _filled(array: Array, axes: dict[int, str], wanted: dict[int, int]) -> Array:
    more = [(0, wanted[axis] - size if axis in axes else 0) for axis, size in enumerate(array.shape)]
    if not any(after for _, after in more):
        return array
    return np.pad(array, more, constant_values="" if array.dtype == object else 0)


def _shortened(part: Array, axes: dict[int, str], sizes: dict[str, int]) -> Array:
    return part[tuple(slice(sizes[axes[axis]]) if axis in axes else slice(None) for axis in range(part.ndim))]
