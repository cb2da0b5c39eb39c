"""Samples: a stream of batches that can be walked again and again, from files, images, functions or memory.

- Files (`.npz`, `.npy`, `.safetensors`) and dicts of arrays: axis 0 counts examples, in arrays named like the inputs, with
  labels in `label`. A nameless array is the model's only input. An array is *repeated* in every batch, instead of cut, where
  its input is a scalar or has a fixed first dimension that the array already fills, as a state of `[2,batch,128]` does.
- A folder of images: each folder inside it is a class, and sorted names give the labels 0, 1, …. Classes take turns, so
  that any beginning of the stream holds all of them. Without folders inside there are no labels.
- `module:callable`, `file.py:callable`, a function or a list: it yields dicts, and each is a whole batch. A function is called
  without arguments, again for every walk.

A batch has the size that the model fixes, else the size asked for, else 32 (1 for images of unequal sizes). Examples that do
not fill a last batch of fixed size are left out, and counted in `left_out`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import arrays, callables, image_folder, images, registry
from sardonyx.arrays import NAMELESS, Rows
from sardonyx.errors import BadData, NotFound, UsageError
from sardonyx.image_folder import ImageFolder
from sardonyx.signature import Array, Arrays, Signature, TensorSpec

BATCH = 32
LABEL = "label"


@dataclass(frozen=True)
class Batch:
    """Inputs that fit the model, and the labels of their examples where there are any."""

    inputs: Arrays
    label: Array | None = None

    @property
    def examples(self) -> int:
        """How many there are: by the labels, else by the first input that is more than one number."""
        arrays = (self.label, *self.inputs.values())
        return next((len(array) for array in arrays if array is not None and array.ndim), 1)


@dataclass(frozen=True)
class Samples:
    """Batches: `for batch in samples`. `count` batches and `examples` examples, where these are known before the walk."""

    walk: Callable[[], Iterator[Batch]]
    count: int | None = None
    examples: int | None = None
    left_out: int = 0
    classes: tuple[str, ...] = ()

    @classmethod
    def open(cls, source: Any, signature: Signature, *, batch: int | None = None) -> Samples:
        """The samples of a file, a folder of images, `module:callable`, a function, a dict of arrays or a list of dicts.

        Raises one error that names every array with a wrong name, length, type or shape.
        """
        if batch is not None and batch < 1:
            raise UsageError(f"a batch cannot hold {batch} examples", hint="give 1 or more")
        if isinstance(source, Samples):
            return source
        if isinstance(source, str | Path):
            return _of_path(source, signature, batch)
        if isinstance(source, Mapping):
            return _of_arrays(_in_memory(source), signature, batch, "the data")
        if callable(source):
            return _of_function(source, signature, getattr(source, "__name__", "the function"))
        if isinstance(source, Iterable) and not isinstance(source, Iterator):
            return _of_function(lambda: source, signature, "the data")
        trouble = "can be walked only once" if isinstance(source, Iterator) else "holds no samples"
        raise UsageError(
            f"a {type(source).__name__} {trouble}",
            hint="give a dict of arrays, a list of dicts, or a function that yields dicts",
        )

    def __iter__(self) -> Iterator[Batch]:
        return self.walk()

    def take(self, batches: int) -> Samples:
        """The first `batches` batches."""
        if self.count is not None and batches >= self.count:
            return self
        known = None if self.count is None else batches
        return replace(self, walk=lambda: islice(self.walk(), batches), count=known, examples=None)


def _of_path(source: str | Path, signature: Signature, batch: int | None) -> Samples:
    path = Path(source)
    if path.is_dir():
        return _of_images(image_folder.scan(path), signature, batch, str(path))
    if path.is_file() and path.suffix.lower() in images.SUFFIXES:
        return _of_images(ImageFolder((path,)), signature, batch, str(path))
    if path.exists():
        return _of_arrays(arrays.open_arrays(path), signature, batch, str(path))
    if callables.is_reference(str(source)):
        return _of_function(callables.load(str(source)), signature, str(source))
    raise NotFound(
        f"{source} does not exist",
        hint="data is a .npz, .npy or .safetensors file, a folder of images, module:callable or file.py:callable",
    )


def _in_memory(source: Mapping[str, Any]) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    problems = []
    for name, value in source.items():
        try:
            found[name] = np.asarray(value)
        except (ValueError, TypeError, RuntimeError) as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise BadData("not arrays:\n  " + "\n  ".join(problems), hint="give arrays with examples along axis 0")
    return found


def _of_arrays(found: Mapping[str, Rows], signature: Signature, batch: int | None, where: str) -> Samples:
    inputs, label = named(found, signature)
    specs = {spec.name: spec for spec in signature.inputs}
    cut = {name: rows for name, rows in inputs.items() if rows.shape and not repeats(specs.get(name), rows.shape)}
    repeated = {name: np.asarray(rows[...]) for name, rows in inputs.items() if name not in cut}
    size, fixed = _batch_size([specs[name] for name in cut if name in specs], signature, repeated, batch)

    def part(start: int, stop: int) -> Arrays:
        return repeated | {name: np.asarray(rows[start:stop]) for name, rows in cut.items()}

    lengths = {name: rows.shape[0] for name, rows in cut.items()}
    problems = _uneven(lengths, label) + signature.try_fit(part(0, size))[1]
    if problems:
        raise signature.misfit(problems, what=where)
    if not cut:
        only = Batch(_fitted(signature, repeated, where), None if label is None else np.asarray(label[...]))
        return Samples(lambda: iter([only]), 1)
    examples = next(iter(lengths.values()))
    whole = _whole(examples, size, fixed, where)

    def walk() -> Iterator[Batch]:
        for start, stop in _spans(whole, size):
            fitted = _fitted(signature, part(start, stop), f"{where}, examples {start} to {stop - 1},")
            yield Batch(fitted, None if label is None else np.asarray(label[start:stop]))

    return Samples(walk, len(_spans(whole, size)), whole, examples - whole)


def _of_images(folder: ImageFolder, signature: Signature, batch: int | None, where: str) -> Samples:
    if len(signature.inputs) != 1:
        raise BadData(
            f"{where} gives images, and the model takes {signature.describe()}",
            hint="give the data as a function that yields a dict of all inputs",
        )
    spec = signature.inputs[0]
    registry.need("vision", for_what="a folder of images")
    size, fixed = _image_batch(spec, batch)
    whole = _whole(len(folder.paths), size, fixed, where)
    labels = None if folder.labels is None else np.array(folder.labels, dtype=np.int64)

    def walk() -> Iterator[Batch]:
        for start, stop in _spans(whole, size):
            loaded = _joined(folder.paths[start:stop], spec)
            yield Batch(_fitted(signature, {spec.name: loaded}, where), None if labels is None else labels[start:stop])

    return Samples(walk, len(_spans(whole, size)), whole, len(folder.paths) - whole, folder.classes)


def _of_function(function: Callable[[], Any], signature: Signature, where: str) -> Samples:
    def walk() -> Iterator[Batch]:
        index = -1
        for index, item in enumerate(_yielded(function, where)):
            yield _checked(item, signature, f"{where}, item {index},")
        if index < 0:
            raise BadData(f"{where} yields nothing", hint="it must yield at least one dict of arrays")

    return Samples(walk)


def named(found: Mapping[str, Rows], signature: Signature) -> tuple[dict[str, Rows], Rows | None]:
    """The arrays by input, and the label. A nameless array is the only input."""
    inputs = dict(found)
    label = inputs.get(LABEL) if LABEL in signature.input_names else inputs.pop(LABEL, None)
    if list(inputs) == [NAMELESS] and len(signature.inputs) == 1:
        inputs = {signature.inputs[0].name: inputs[NAMELESS]}
    return inputs, label


def repeats(spec: TensorSpec | None, shape: tuple[int, ...]) -> bool:
    """Whether an array goes into every batch whole."""
    if spec is None or spec.shape is None:
        return False
    return not spec.shape or (isinstance(spec.shape[0], int) and shape[0] == spec.shape[0])


def _batch_size(cut: list[TensorSpec], signature: Signature, repeated: Arrays, asked: int | None) -> tuple[int, bool]:
    """The examples of a batch, and whether the model fixes them: by a number, or by a name that a repeated array settles."""
    settled = {
        dim: size
        for spec in signature.inputs
        if spec.name in repeated and spec.shape is not None
        for dim, size in zip(spec.shape, repeated[spec.name].shape, strict=False)
        if isinstance(dim, str)
    }
    firsts = {spec.name: spec.shape[0] for spec in cut if spec.shape}
    sizes = {name: dim if isinstance(dim, int) else settled.get(dim or "") for name, dim in firsts.items()}
    fixed = {name: size for name, size in sizes.items() if size}
    if len(set(fixed.values())) > 1:
        raise BadData(
            "the inputs take batches of different sizes: "
            + ", ".join(f"{name} {size}" for name, size in fixed.items()),
            hint="give the data as a function that yields whole batches",
        )
    if not fixed:
        return asked or BATCH, False
    return next(iter(fixed.values())), True


def _image_batch(spec: TensorSpec, asked: int | None) -> tuple[int, bool]:
    layout = images.layout(spec)
    first = spec.shape[0] if spec.shape and "N" in layout.axes else 1
    if isinstance(first, int):
        return first, True
    alike = isinstance(layout.height, int) and isinstance(layout.width, int)
    return asked or (BATCH if alike else 1), False


def _whole(examples: int, size: int, fixed: bool, where: str) -> int:
    """The examples that are served: those of full batches where the model takes no other."""
    whole = examples - examples % size if fixed else examples
    if not whole:
        needed = f"{size} at a time" if examples else "at least one"
        raise BadData(f"{where} holds {examples} examples, and the model takes {needed}", hint="give more examples")
    return whole


def _spans(examples: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, examples)) for start in range(0, examples, size)]


def _uneven(lengths: Mapping[str, int], label: Rows | None) -> list[str]:
    counts = dict(lengths)
    if label is not None and lengths:
        counts[LABEL] = label.shape[0] if label.shape else 0
    if len(set(counts.values())) <= 1:
        return []
    return ["the lengths differ: " + ", ".join(f"{name} has {count} examples" for name, count in counts.items())]


def _joined(paths: tuple[Path, ...], spec: TensorSpec) -> Array:
    loaded = [images.load(path, spec)[0] for path in paths]
    for path, array in zip(paths, loaded, strict=True):
        if array.shape != loaded[0].shape:
            raise BadData(
                f"{paths[0]} and {path} have different sizes, and the model fixes none, so they cannot share a batch",
                hint="ask for batches of 1, or make the images equal",
            )
    return np.concatenate(loaded) if len(loaded) > 1 else loaded[0]


def _yielded(function: Callable[[], Any], where: str) -> Iterator[Any]:
    with callables.raised_by(where):
        items = function()
        if not isinstance(items, Iterable) or isinstance(items, Mapping | str):
            raise BadData(f"{where} gives a {type(items).__name__}", hint="it must yield dicts of arrays")
        items = iter(items)
    while True:
        with callables.raised_by(where):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def _checked(item: Any, signature: Signature, where: str) -> Batch:
    if not isinstance(item, Mapping):
        raise BadData(f"{where} is a {type(item).__name__}", hint="yield dicts of arrays named like the inputs")
    inputs = dict(item)
    label = inputs.get(LABEL) if LABEL in signature.input_names else inputs.pop(LABEL, None)
    return Batch(_fitted(signature, inputs, where), None if label is None else np.asarray(label))


def _fitted(signature: Signature, inputs: Mapping[str, Any], where: str) -> Arrays:
    fitted, problems = signature.try_fit(inputs)
    if problems:
        raise signature.misfit(problems, what=where)
    return fitted
