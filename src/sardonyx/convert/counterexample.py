"""The input on which an export is wrong, made as small and plain as it gets, and kept for the user to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sardonyx.arrays import write_npz
from sardonyx.convert.candidate import Candidate
from sardonyx.falsify import Answered, Probe
from sardonyx.falsify.sizes import symbols
from sardonyx.signature import Array, Arrays, Signature
from sardonyx.sources import Failure, Original, Outputs, Source, Trial

# Rows tried by themselves, and turns of making what is left plainer.
ROWS = 8
TURNS = 12


class Answering(Protocol):
    def predict(self, batches: Sequence[Arrays]) -> list[Outputs | Failure]: ...


Differs = Callable[[Answered, Outputs], bool]


def shrink(
    signature: Signature, item: Answered, answer: Outputs, original: Original, export: Answering, differs: Differs
) -> tuple[Answered, Outputs]:
    """The smallest input found that still shows the difference: fewest rows first, then the plainest values.

    Delta debugging (Zeller 2002): each turn tries simpler variants, and goes on from the first that still differs.
    """

    def first_that_differs(variants: Sequence[Arrays]) -> tuple[Answered, Outputs] | None:
        pairs = zip(variants, original.predict(variants), export.predict(variants), strict=True) if variants else ()
        for arrays, expected, given in pairs:
            if isinstance(expected, Outputs) and isinstance(given, Outputs):
                alone = Answered(Probe(item.probe.name, arrays), expected, Trial(expected))
                if differs(alone, given):
                    return alone, given
        return None

    rows = _differing_rows(item.outputs, answer)
    best = first_that_differs(single_rows(signature, item.probe.arrays, rows)) or (item, answer)
    for _ in range(TURNS):
        plainer = first_that_differs(list(_simpler(signature, best[0].probe.arrays)))
        if plainer is None:
            break
        best = plainer
    return best


def _differing_rows(theirs: Outputs, mine: Outputs) -> list[int]:
    """The rows of the answers that are not the same to the last bit, those that differ most first."""
    apart: dict[int, float] = {}
    for one, two in zip(map(np.asarray, theirs.arrays), map(np.asarray, mine.arrays), strict=False):
        if one.ndim and one.shape == two.shape and one.dtype.kind in "fiub" and two.dtype.kind in "fiub":
            with np.errstate(invalid="ignore"):
                gap = np.abs(one.astype(np.float64) - two.astype(np.float64)).reshape(len(one), -1)
            size = np.nan_to_num(gap, nan=np.inf).max(axis=1, initial=0.0)
            apart |= {int(row): max(apart.get(int(row), 0.0), float(size[row])) for row in np.flatnonzero(size)}
    return sorted(apart, key=lambda row: -apart[row])


def single_rows(signature: Signature, inputs: Arrays, likely: Sequence[int] = ()) -> list[Arrays]:
    """Rows of the inputs, the likely ones first, each by itself; none where there is no batch to cut or only one row."""
    batch = next((spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], str)), None)
    rowed = [spec.name for spec in signature.inputs if spec.shape and spec.shape[0] == batch]
    if batch is None or inputs[rowed[0]].shape[0] < 2:
        return []
    return [
        {name: array[row : row + 1] if name in rowed else array for name, array in inputs.items()}
        for row in list(dict.fromkeys((*likely, *range(len(inputs[rowed[0]])))))[:ROWS]
        if row < len(inputs[rowed[0]])
    ]


def proof(item: Answered, got: Outputs | None) -> dict[str, Any]:
    """What a counterexample file holds: the inputs, what the original answers, and what the export answers."""
    found: dict[str, Any] = dict(item.probe.arrays)
    found |= {f"expected.{name}": array for name, array in zip(item.outputs.names, item.outputs.arrays, strict=True)}
    if got is not None:
        found |= {f"exported.{name}": array for name, array in zip(got.names, got.arrays, strict=True)}
    return found


def save_counterexample(candidate: Candidate, output: Path) -> Path | None:
    """Writes the candidate's counterexample beside `output`: its inputs, what the original says, and what the export says."""
    if candidate.counterexample is None:
        return None
    path = output.with_name(f"{output.stem}.{candidate.route}.counterexample.npz")
    write_npz(path, candidate.counterexample)
    return path


# How a user calls the original. `{model}` is the factory's name with brackets, or `model` for a live object.
CALLS = {
    "torch": ("torch", "{model}.eval()({tensors})", "torch.from_numpy(case['{name}'])"),
    "tensorflow": ("numpy", "{model}({tensors})", "case['{name}']"),
    "jax": ("numpy", "{model}({tensors})", "case['{name}']"),
    "sklearn": ("numpy", "{model}.predict({tensors})", "case['{name}']"),
    "boosting": ("numpy", "{model}.predict({tensors})", "case['{name}']"),
}


def reproduction(source: Source, route: str, file: Path, counterexample: Mapping[str, Any]) -> list[str]:
    """Three lines of Python that show the original's answer beside the export's."""
    library, call, tensor = CALLS.get(source.plugin, ("numpy", "", ""))
    names = [name for name in counterexample if not name.startswith(("expected.", "exported."))]
    outputs = [name for name in counterexample if name.startswith("expected.")]
    model, place = "model", ""
    if source.attribute and source.path is not None:
        model, place = f"{source.attribute}()", f"; from {source.path.stem} import {source.attribute}"
    tensors = ", ".join(tensor.format(name=name) for name in names)
    asked = call.format(model=model, tensors=tensors) if call else f"case[{outputs[0]!r}]"
    given = ", ".join(f"case[{name.replace('expected.', 'exported.')!r}]" for name in outputs)
    return [
        f"import numpy, {library}{place}" if library != "numpy" else f"import numpy{place}",
        f"case = numpy.load({str(file)!r}); print({asked})  # the original",
        f"print({given})  # the export by {route}",
    ]


def _simpler(signature: Signature, inputs: Arrays) -> Iterator[Arrays]:
    """Variants with half the size of a dynamic dimension, then with plainer values; none that is no simpler."""
    for symbol, size in symbols(signature, inputs).items():
        for smaller in dict.fromkeys((size // 2, size - 1)):
            if 0 < smaller < size:
                yield _cut(signature, inputs, symbol, smaller)
    for name, array in inputs.items():
        for plainer in _plainer(array):
            if plainer.tobytes() != array.tobytes():
                yield {**inputs, name: plainer}


def _cut(signature: Signature, inputs: Arrays, symbol: str, size: int) -> Arrays:
    cut = {}
    for spec in signature.inputs:
        index = tuple(slice(0, size) if dim == symbol else slice(None) for dim in spec.shape or ())
        cut[spec.name] = inputs[spec.name][index]
    return cut


def _plainer(array: Array) -> Iterator[Array]:
    """All zeros, one half zeros, whole numbers, one digit: whatever has fewer or shorter numbers."""
    if array.dtype.kind not in "iuf" or not array.size:
        return
    yield np.zeros_like(array)
    half = array.size // 2
    if np.count_nonzero(array) > 1 and half:
        for part in (slice(0, half), slice(half, None)):
            kept = array.copy().reshape(-1)
            kept[part] = 0
            yield kept.reshape(array.shape)
    if array.dtype.kind == "f":
        for digits in (0, 1):
            with np.errstate(over="ignore", invalid="ignore"):
                yield np.round(array, digits)
