"""Samples: a stream of batches that can be walked again and again, from files, tables, images, functions or memory.

- Files (`.npz`, `.npy`, `.safetensors`) and dicts of arrays: axis 0 counts examples, in arrays named like the inputs, with
  labels in `label`. A nameless array is the model's only input. An array is *repeated* in every batch, instead of cut, where
  its input is a scalar or has a fixed first dimension that the array already fills, as a state of `[2,batch,128]` does.
- Tables (`.csv`, `.parquet`, DataFrames of pandas and polars): a row is an example, and columns become inputs as `columns.py`
  says, with labels in the column `label`.
- A folder of images: each folder inside it is a class, and sorted names give the labels 0, 1, …. Classes take turns, so
  that any beginning of the stream holds all of them. Without folders inside there are no labels.
- `module:callable`, `file.py:callable`, a function or a list: it yields dicts, and each is a whole batch. A function is called
  without arguments, again for every walk.

Labels that are called otherwise are named with `label`. A batch has the size that the model fixes, else the size asked for, else
32 (1 for images of unequal sizes). Examples that do not fill a last batch of fixed size are left out, and counted in `left_out`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import arrays, callables, data_frame, image_folder, images, registry
from sardonyx.arrays import Rows
from sardonyx.dataset import LABEL, Dataset, Named, in_memory, misfit, named, no_labels
from sardonyx.errors import BadData, NotFound, UsageError
from sardonyx.frame import Frame
from sardonyx.image_folder import ImageFolder
from sardonyx.signature import Array, Arrays, Signature, TensorSpec

BATCH = 32
# Batches that a search starts from.
PROBES = 8


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
    """Batches: `for batch in samples`. `count` batches and `examples` examples, where these are known before the walk.

    `label_hint` says what to do where labels are needed and there are none.
    """

    walk: Callable[[], Iterator[Batch]]
    count: int | None = None
    examples: int | None = None
    left_out: int = 0
    classes: tuple[str, ...] = ()
    label_hint: str = no_labels(())

    @classmethod
    def open(
        cls,
        source: Any,
        signature: Signature,
        *,
        batch: int | None = None,
        label: str | None = None,
        columns: Sequence[str] = (),
        precise: bool = False,
    ) -> Samples:
        """The samples of a file, a table, a folder of images, `module:callable`, a function, a dict of arrays or a list of dicts.

        `label` names the labels, `columns` the columns of a table that make up a matrix, in their order. Floats are brought to
        the width that the model takes; with `precise` they keep their own where it is wider. Raises one error that names
        every array with a wrong name, length, type or shape.
        """
        if batch is not None and batch < 1:
            raise UsageError(f"a batch cannot hold {batch} examples", hint="give 1 or more")
        if isinstance(source, Samples):
            return source
        said = source if isinstance(source, Dataset) else Dataset(source, label, columns)
        return _Opening(said, signature, batch, precise).open()

    def __iter__(self) -> Iterator[Batch]:
        return self.walk()

    def take(self, batches: int) -> Samples:
        """The first `batches` batches."""
        if self.count is not None and batches >= self.count:
            return self
        known = None if self.count is None else batches
        return replace(self, walk=lambda: islice(self.walk(), batches), count=known, examples=None)


def probes_of(
    data: Any,
    signature: Signature,
    *,
    limit: int = PROBES,
    batch: int | None = None,
    label: str | None = None,
    columns: Sequence[str] = (),
) -> list[Arrays]:
    """The inputs of the first `limit` batches, in the precision that the data has, to ask an original with.

    A column of float64 stays float64 where the signature says float32; `signature.fit` brings a batch to the model's own types.
    Columns of a table are in the order `columns`, the estimator's own, where it is known. Labels are left out.
    """
    said = data if isinstance(data, Dataset) else Dataset(data, label, columns)
    ready = replace(said, columns=said.columns or columns, ignored=True)
    return [dict(item.inputs) for item in Samples.open(ready, signature, batch=batch, precise=True).take(limit)]


@dataclass(frozen=True)
class _Opening:
    """One call of `Samples.open`: the data, what the model takes, and how batches are made."""

    said: Dataset
    signature: Signature
    batch: int | None
    precise: bool

    def open(self) -> Samples:
        source = self.said.source
        if isinstance(source, Samples):
            return source
        if isinstance(source, str | Path):
            return self._of_path(source)
        if data_frame.is_frame(source):
            return self._of_arrays(data_frame.of_object(source), "the DataFrame")
        if isinstance(source, Mapping):
            return self._of_arrays(in_memory(source), "the data")
        if callable(source):
            return self._of_function(source, getattr(source, "__name__", "the function"))
        if isinstance(source, Iterable) and not isinstance(source, Iterator):
            return self._of_function(lambda: source, "the data")
        trouble = "can be walked only once" if isinstance(source, Iterator) else "holds no samples"
        raise UsageError(
            f"a {type(source).__name__} {trouble}",
            hint="give a DataFrame, a dict of arrays, a list of dicts, or a function that yields dicts",
        )

    def _of_path(self, source: str | Path) -> Samples:
        path = Path(source)
        if path.is_dir():
            return self._of_images(image_folder.scan(path), str(path))
        if path.is_file() and path.suffix.lower() in images.SUFFIXES:
            return self._of_images(ImageFolder((path,)), str(path))
        if path.exists():
            return self._of_arrays(arrays.open_arrays(path), str(path))
        if callables.is_reference(str(source)):
            return self._of_function(callables.load(str(source)), str(source))
        raise NotFound(
            f"{source} does not exist",
            hint=f"data is a {arrays.KINDS} file, a folder of images, module:callable or file.py:callable",
        )

    def _named(self, found: Mapping[str, Rows] | Frame, where: str) -> Named:
        said = self.said
        return named(found, self.signature, label=said.label, columns=said.columns, ignored=said.ignored, where=where)

    def _of_arrays(self, found: Mapping[str, Rows] | Frame, where: str) -> Samples:
        data = self._named(found, where)
        inputs, label, signature = data.inputs, data.label, self.signature
        specs = {spec.name: spec for spec in signature.inputs}
        cut = {name: rows for name, rows in inputs.items() if rows.shape and not repeats(specs.get(name), rows.shape)}
        repeated = {name: np.asarray(rows[...]) for name, rows in inputs.items() if name not in cut}
        size, fixed = _batch_size([specs[name] for name in cut if name in specs], signature, repeated, self.batch)

        def part(start: int, stop: int) -> Arrays:
            return repeated | {name: np.asarray(rows[start:stop]) for name, rows in cut.items()}

        lengths = {name: rows.shape[0] for name, rows in cut.items()}
        fitting = [] if data.problems else self._fit(part(0, size))[1]
        problems = _uneven(lengths, label) + data.problems + fitting
        if problems:
            raise misfit(signature, problems, data.spare, what=where)
        hint = no_labels(data.spare)
        if not cut:
            only = Batch(self._fitted(repeated, where), None if label is None else np.asarray(label[...]))
            return Samples(lambda: iter([only]), 1, label_hint=hint)
        examples = next(iter(lengths.values()))
        whole = _whole(examples, size, fixed, where)

        def walk() -> Iterator[Batch]:
            for start, stop in _spans(whole, size):
                fitted = self._fitted(part(start, stop), f"{where}, examples {start} to {stop - 1},")
                yield Batch(fitted, None if label is None else np.asarray(label[start:stop]))

        return Samples(walk, len(_spans(whole, size)), whole, examples - whole, label_hint=hint)

    def _of_images(self, folder: ImageFolder, where: str) -> Samples:
        if len(self.signature.inputs) != 1:
            raise BadData(
                f"{where} gives images, and the model takes {self.signature.describe()}",
                hint="give the data as a function that yields a dict of all inputs",
            )
        if self.said.label is not None:
            raise UsageError(
                f"{where} has no '{self.said.label}': the folders inside it are the labels of images",
                hint="leave --label out",
            )
        spec = self.signature.inputs[0]
        registry.need("vision", for_what="a folder of images")
        size, fixed = _image_batch(spec, self.batch)
        whole = _whole(len(folder.paths), size, fixed, where)
        labels = None if folder.labels is None else np.array(folder.labels, dtype=np.int64)

        def walk() -> Iterator[Batch]:
            for start, stop in _spans(whole, size):
                loaded = self._fitted({spec.name: image_folder.load(folder.paths[start:stop], spec)}, where)
                yield Batch(loaded, None if labels is None else labels[start:stop])

        return Samples(walk, len(_spans(whole, size)), whole, len(folder.paths) - whole, folder.classes, _IMAGE_LABELS)

    def _of_function(self, function: Callable[[], Any], where: str) -> Samples:
        def walk() -> Iterator[Batch]:
            index = -1
            for index, item in enumerate(_yielded(function, where)):
                yield self._checked(item, f"{where}, item {index},")
            if index < 0:
                raise BadData(f"{where} yields nothing", hint="it must yield at least one dict of arrays")

        return Samples(walk)

    def _checked(self, item: Any, where: str) -> Batch:
        """A whole batch: a dict of arrays, or a table."""
        if data_frame.is_frame(item):
            item = data_frame.of_object(item)
        elif not isinstance(item, Mapping):
            raise BadData(f"{where} is a {type(item).__name__}", hint="yield dicts of arrays named like the inputs")
        data = self._named(item, where)
        if data.problems:
            raise misfit(self.signature, data.problems, data.spare, what=where)
        label = None if data.label is None else np.asarray(data.label)
        return Batch(self._fitted(data.inputs, where, data.spare), label)

    def _fitted(self, inputs: Mapping[str, Any], where: str, spare: Sequence[str] = ()) -> Arrays:
        fitted, problems = self._fit(inputs)
        if problems:
            raise misfit(self.signature, problems, spare, what=where)
        return fitted

    def _fit(self, inputs: Mapping[str, Any]) -> tuple[Arrays, list[str]]:
        return (_widened(self.signature, inputs) if self.precise else self.signature).try_fit(inputs)


_IMAGE_LABELS = "put the images of each class into a folder of its own"


def _widened(signature: Signature, inputs: Mapping[str, Any]) -> Signature:
    """The signature with floats as wide as the arrays have them, where that is wider."""

    def wide(spec: TensorSpec) -> TensorSpec:
        given = getattr(inputs.get(spec.name), "dtype", None)
        wider = spec.dtype in ("float16", "float32") and given == np.float64
        return replace(spec, dtype="float64") if wider else spec

    return replace(signature, inputs=tuple(map(wide, signature.inputs)))


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
