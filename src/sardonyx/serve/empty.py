"""Sizes of 0: some kernels of onnxruntime end the process on them, so a request may have those that were tried in a child."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from sardonyx.serve.refusal import bad
from sardonyx.signature import Signature, TensorSpec

# All pairs of so many dynamic sizes are tried; of more, each alone and all together.
_PAIRED = 4
# A model with more dynamic sizes than this takes none of 0.
_MOST = 32


class Empties:
    """Which dynamic dimensions of a model may be 0 together. A dimension is called by its name, or `x.0` by its place."""

    def __init__(self, signature: Signature, good: Iterable[Sequence[str]]) -> None:
        self._names = {spec.name: _names(spec) for spec in signature.inputs}
        self._good = {frozenset(names) for names in good}

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raises a refusal where a size is 0 that the model was not seen to take."""
        empty = set()
        for input_name, shape in shapes.items():
            names = self._names[input_name]
            if names is None:
                raise bad(f"input {input_name}: a size of 0 is not taken, for the model does not say its shape")
            empty |= {name for name, size in zip(names, shape, strict=True) if size == 0 and name}
        if empty and frozenset(empty) not in self._good:
            raise bad(f"a size of 0 for {', '.join(sorted(empty))}: the model was not seen to take that")


def combinations_to_try(signature: Signature) -> list[tuple[str, ...]]:
    """The dynamic dimensions that are tried with a size of 0, each tuple at once."""
    names: dict[str, None] = {}
    for spec in signature.inputs:
        names |= dict.fromkeys(name for name in _names(spec) or () if name)
    if len(names) > _MOST:
        return []
    tried: list[tuple[str, ...]] = [(name,) for name in names]
    tried += combinations(names, 2) if len(names) <= _PAIRED else ()
    return tried if len(names) < 2 or tuple(names) in tried else [*tried, tuple(names)]


def _names(spec: TensorSpec) -> list[str] | None:
    """The name of each dynamic dimension, empty for a fixed one; None where even the rank is unknown."""
    if spec.shape is None:
        return None
    return [
        "" if isinstance(dim, int) else dim if isinstance(dim, str) and dim else f"{spec.name}.{axis}"
        for axis, dim in enumerate(spec.shape)
    ]
