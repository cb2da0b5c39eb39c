"""Pre- and post-processing inside the graph, in standard operators: a picture of bytes goes in, the answer comes out.

The resize is two matrix products whose weights the graph computes from the picture's size: the antialiased triangle
filter that Pillow has, rounded after each pass as Pillow rounds. The operator Resize would be shorter, but its antialiasing is
younger than many models' opsets and missing in many runtimes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx import history
from sardonyx.build import Builder, Expr, op, ops
from sardonyx.errors import UsageError
from sardonyx.images import Layout
from sardonyx.model import Model
from sardonyx.run import labels as names
from sardonyx.run.detect import head_named
from sardonyx.run.heads._head import Written
from sardonyx.run.heads._rows import columns, reduced
from sardonyx.run.preprocessing import MARGIN, Picture, Preprocessing, statistics
from sardonyx.run.task import KEY, Answer, Question

# The first opset with NonMaxSuppression, TopK, OneHot and Range as they are used here.
_OPSET = 11
_FLOAT, _INT64 = int(ir.DataType.FLOAT), int(ir.DataType.INT64)


def embed(source: str | Path | Model, question: Question, answer: Answer, name: str, picture: Picture) -> Model:
    """The model that takes the picture itself and gives the answer: `classes` and `scores`, or `boxes`, `scores`, `labels`.

    What only values tell (logits or probabilities, which head) is taken from the answer that was given for the picture.
    """
    made = _copy(source)
    if question.inside:
        raise UsageError("the model has its preprocessing inside already", hint="leave --embed-preprocessing out")
    if made.opset < _OPSET:
        raise UsageError(
            f"the model has opset {made.opset}, and the operators to embed came with {_OPSET}",
            hint="export it again with a newer opset",
        )
    build = Builder(made.ir.graph, made.opset, prefix="picture_")
    seat = next(value for value in made.ir.graph.inputs if value.name == name)
    seat.name = build.names.fresh(f"picture_{name}")
    image = ir.val(name, ir.DataType.UINT8, ["height", "width", picture.layout.channels])
    given = _Picture(build, image, picture.layout, question.how.for_input(_spec(question, name)))
    _take_the_seat(made.ir.graph, seat, image, given.input(ir.DataType(seat.dtype)))
    results = _classes(build, answer) if answer.scores else _boxes(build, question, answer, given)
    made.ir.graph.outputs.clear()
    for label, value in results.items():
        value.value.name = label
        made.ir.graph.outputs.append(value.value)
    made.ir.graph.sort()
    return _marked(made, question, answer)


def _copy(source: str | Path | Model) -> Model:
    """A model of our own to change."""
    return Model(source.ir.clone(), path=source.path) if isinstance(source, Model) else Model.load(source)


class _Picture:
    """The picture in the graph: its size, the place it takes in the input, and the input itself."""

    def __init__(self, build: Builder, image: ir.Value, layout: Layout, how: Preprocessing) -> None:
        self.layout, self.how = layout, how
        self.image = build.expr(image)
        self.build = build
        shape = op("Shape", self.image)
        self.height, self.width = (op("Slice", shape, [axis], [axis + 1], [0]) for axis in (0, 1))
        self.target = int(layout.width or 0), int(layout.height or 0)
        self.resized = self._resized()
        self.corner = [_half(size, resized) for size, resized in zip(self.target, self.resized, strict=True)]

    def _resized(self) -> tuple[Expr, Expr]:
        """The sizes of `preprocessing.place`, in the same whole numbers."""
        wide, high = (self.build.constant([size]) for size in self.target)
        if self.how.resize == "stretch":
            return wide, high
        by_width = self.width * high >= self.height * wide
        meets = by_width if self.how.resize == "fit" else ~by_width
        down = _at_least_one((self.height * wide * 2 + self.width) / (self.width * 2))
        across = _at_least_one((self.width * high * 2 + self.height) / (self.height * 2))
        return op("Where", meets, wide, across), op("Where", meets, down, high)

    def input(self, dtype: ir.DataType) -> Expr:
        """The values in the layout and type of the model's input."""
        across, seen_across = _filter(self.width, self.resized[0], self.corner[0], self.target[0])
        down, seen_down = _filter(self.height, self.resized[1], self.corner[1], self.target[1])
        planes = op("Transpose", op("Cast", self.image, to=_FLOAT), perm=[2, 0, 1])
        rows = _rounded(planes @ op("Transpose", across, perm=[1, 0]))
        pixels = _rounded(down @ rows)
        if self.how.resize == "fit":
            pixels = pixels + (1.0 - seen_down @ op("Transpose", seen_across, perm=[1, 0])) * float(MARGIN)
        if self.how.channel_order == "bgr" and self.layout.channels == 3:
            pixels = op("Gather", pixels, [2, 1, 0], axis=0)
        mean, deviation = (
            np.array(item, np.float32).reshape(-1, 1, 1) for item in statistics(self.how.normalize or "unit")
        )
        return self._laid_out((pixels - mean) / deviation, dtype)

    def _laid_out(self, values: Expr, dtype: ir.DataType) -> Expr:
        order = [letter for letter in self.layout.axes if letter != "N"]
        sizes = {"N": 1, "C": self.layout.channels, "H": self.target[1], "W": self.target[0]}
        turned = op("Transpose", values, perm=["CHW".index(letter) for letter in order]) if "C" in order else values
        shaped = op("Reshape", turned, [sizes[letter] for letter in self.layout.axes])
        return shaped if dtype == ir.DataType.FLOAT else op("Cast", shaped, to=int(dtype))

    def back(self, boxes: Expr) -> Expr:
        """Boxes of the input in pixels of the picture and inside it."""
        corner, resized, size = (
            op("Cast", op("Concat", *pair, *pair, axis=0), to=_FLOAT)
            for pair in (self.corner, self.resized, (self.width, self.height))
        )
        moved = (boxes - corner) / (resized / size)
        return op("Min", op("Max", moved, 0.0), size)


def _filter(size: Expr, resized: Expr, corner: Expr, target: int) -> tuple[Expr, Expr]:
    """The weights [target, size] of a triangle filter, and [target, 1] with one where the picture is seen.

    The distance of pixel j from the centre of target pixel o is ((2j+1) resized - (2o+1) size) / (2 resized), and the
    filter is as wide as the coarser of the two grids. Distances are whole numbers until the one division.
    """
    build = size.build
    places = build.constant(np.arange(target, dtype=np.int64)[:, None]) - corner
    pixels = op("Reshape", op("Range", build.constant(0), op("Reshape", size, []), build.constant(1)), [1, -1])
    distance = op("Abs", op("Cast", (pixels * 2 + 1) * resized - (places * 2 + 1) * size, to=_FLOAT))
    support = op("Cast", op("Where", size > resized, size, resized) * 2, to=_FLOAT)
    weights = op("Relu", 1.0 - distance / support)
    seen = op("Cast", (places >= 0) & (places < resized), to=_FLOAT)
    return weights / op("Max", reduced("ReduceSum", weights, 1, keep=True), 1e-6) * seen, seen


def _half(target: int, resized: Expr) -> Expr:
    return (target - resized) / 2  # whole numbers are cut towards zero


def _at_least_one(size: Expr) -> Expr:
    return op("Where", size < 1, size.build.constant([1]), size)


def _rounded(values: Expr) -> Expr:
    return op("Floor", values + 0.5)


def _take_the_seat(graph: ir.Graph, seat: ir.Value, image: ir.Value, values: Expr) -> None:
    """Everything that read the old input reads the new values; the picture is the input in its place."""
    index = list(graph.inputs).index(seat)
    ir.convenience.replace_all_uses_with(seat, values.value)
    graph.inputs[index] = image


def _classes(build: Builder, answer: Answer) -> dict[str, Expr]:
    assert answer.scores is not None
    output = next(value for value in build.graph.outputs if value.name == answer.scores.output)
    flat = op("Cast", op("Reshape", build.expr(output), [1, -1]), to=_FLOAT)
    if answer.scores.kind == "logits":
        flat = op("Softmax", flat, axis=1)
    elif answer.scores.kind == "log-probabilities":
        flat = op("Exp", flat)
    scores, classes = ops(2, "TopK", op("Reshape", flat, [-1]), [len(answer.found)], axis=0)
    return _named(build, {"classes": classes, "scores": scores})


def _boxes(build: Builder, question: Question, answer: Answer, given: _Picture) -> dict[str, Expr]:
    assert answer.head is not None
    assert answer.raw is not None
    head, task = head_named(answer.head), question.task
    found = head.write({value.name or "": build.expr(value) for value in build.graph.outputs}, answer.raw)
    if head.SUPPRESSED:
        kept = op("Reshape", op("NonZero", found.scores > task.score), [-1])
    else:
        kept = _suppressed(found, head.decode(answer.raw).classes or 1, task.score, task.overlap, task.limit)
    scores = op("Gather", found.scores, kept, axis=0)
    count = op("Shape", scores)
    best, order = ops(2, "TopK", scores, op("Where", count < task.limit, count, build.constant([task.limit])), axis=0)
    chosen = op("Gather", kept, order, axis=0)
    boxes = given.back(op("Gather", found.boxes, chosen, axis=0))
    return _named(build, {"boxes": boxes, "scores": best, "labels": op("Gather", found.labels, chosen, axis=0)})


def _suppressed(found: Written, classes: int, score: float, overlap: float, limit: int) -> Expr:
    """The boxes that remain of each class, by index, in the order of the rows: so ties fall as they do in numpy."""
    build = found.boxes.build
    own = op("OneHot", found.labels, build.constant([classes]), np.array([0, 1], np.float32), axis=0)
    scores = op("Reshape", own * found.scores, [1, classes, -1])
    picked = op(
        "NonMaxSuppression", op("Reshape", found.boxes, [1, -1, 4]), scores, [limit],
        np.array([overlap], np.float32), np.array([score], np.float32),
    )  # fmt: skip
    rows = op("Reshape", columns(picked, 2, 3), [-1])
    return ops(2, "TopK", rows, op("Shape", rows), axis=0, largest=0)[0]


def _named(build: Builder, results: dict[str, Expr]) -> dict[str, Expr]:
    """The results as values of their own, under names that are free once the old outputs are none."""
    old = {value.name for value in build.graph.outputs}
    for value in build.graph.outputs:
        value.name = build.names.fresh(f"picture_{value.name}")
    build.names.taken -= {name for name in old if name}
    return {build.names.fresh(name): op("Identity", value) for name, value in results.items()}


def _marked(made: Model, question: Question, answer: Answer) -> Model:
    task = question.task
    said: dict[str, Any] = {"task": task.name, "resize": question.how.resize, "channel_order": task.channel_order}
    said |= {"normalize": question.how.normalize, "head": answer.head, "top": task.limit}
    if task.name == "detect":
        said |= {"score": task.score, "overlap": task.overlap}
    made.ir.metadata_props[KEY] = json.dumps(said)
    if question.labels is not None:
        made.ir.metadata_props[names.KEY] = names.dumps(question.labels)
    return made.record(history.step("run", options={"embed_preprocessing": said}))


def _spec(question: Question, name: str) -> Any:
    return next(spec for spec in question.signature.inputs if spec.name == name)


def differences(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]) -> dict[str, float] | None:
    """The largest differences of scores and of box sides of two answers; None where they do not name the same things."""
    if [item["index"] for item in first] != [item["index"] for item in second]:
        return None
    pairs = list(zip(first, second, strict=True))
    sides = [abs(a - b) for one, other in pairs for a, b in zip(one.get("box", ()), other.get("box", ()), strict=True)]
    return {
        "score": max((abs(one["score"] - other["score"]) for one, other in pairs), default=0.0),
        "box": max(sides, default=0.0),
    }
