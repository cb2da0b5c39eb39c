"""What goes into a step, looked at before it does: names, types, shapes and class numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.errors import BadData
from sardonyx.signature import Array, Arrays, Signature, TensorSpec
from sardonyx.training.manifest import Label, Manifest, Tensor


def input_signature(manifest: Manifest) -> Signature:
    """The inputs of the network, without the labels."""
    return Signature(tuple(map(_spec, manifest.inputs)))


def signature(manifest: Manifest) -> Signature:
    """Everything that a batch holds."""
    return Signature(tuple(map(_spec, (*manifest.inputs, *manifest.labels))))


def fitted(manifest: Manifest, given: Mapping[str, Any]) -> Arrays:
    """The batch as the graphs take it, or an error that names what is wrong with it."""
    feeds = signature(manifest).fit(given)
    for label in manifest.labels:
        check_classes(label, feeds[label.name])
    return feeds


def check_classes(label: Label, values: Array) -> None:
    """Every class number must be one: the runtime would read past the end of the scores."""
    if label.classes is None or not values.size:
        return
    counted = values if label.ignored is None else values[values != label.ignored]
    if counted.size and (counted.min() < 0 or counted.max() >= label.classes):
        wrong = counted[(counted < 0) | (counted >= label.classes)].flat[0]
        raise BadData(
            f"{label.name} holds the class {wrong}, and the model has the classes 0 to {label.classes - 1}",
            hint="number the classes from 0, or give the model more outputs",
        )


def why_not_finite(loss: float, feeds: Mapping[str, Array], where: str) -> BadData:
    """The error for a loss that is no number: the input that is to blame, or the learning rate."""
    for name, array in feeds.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            index = int(np.argwhere(~np.isfinite(array))[0][0]) if array.ndim else 0
            return BadData(
                f"{where}: {name} holds NaN or infinity, first in example {index} of the batch",
                hint="clean the data; the last checkpoint is intact",
            )
    return BadData(
        f"{where}: the loss is {loss}, though the data is finite: training has diverged",
        hint="lower the learning rate or clip the gradients, and go on from the last checkpoint with --resume",
    )


def named(tensors: Sequence[Tensor], arrays: Sequence[Any]) -> dict[str, Any]:
    """Positional arrays by the names of the tensors."""
    if len(arrays) != len(tensors):
        raise BadData(
            f"{len(arrays)} arrays for {len(tensors)} inputs",
            hint=f"give {', '.join(tensor.name for tensor in tensors)}",
        )
    return {tensor.name: _numpy(array) for tensor, array in zip(tensors, arrays, strict=True)}


def _numpy(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(tensor.name, tensor.dtype, tensor.shape)
