"""Faults without a condition: one row of a table, one leaf or threshold of a tree, one word of a vocabulary is changed.

`weight_faults(model, example)` is {name: change}; a change edits the model and gives a function that finds the witness, given the
original, or None. `NAMES` says which faults a base can have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from sardonyx.sources import Original

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Witness = Callable[[Original], Arrays]
Change = Callable[[onnx.ModelProto], Witness | None]
# Rows of a table, and leaves and thresholds of trees, counted through.
ROWS = {"words": (0, 17, 29, 31, 44, 58, 59), "profile": (0, 5, 23, 38, 39), "Keras words": (0, 13, 21, 29)}
LEAVES = {"forest": (3, 40, 77), "holed trees": (2, 19, 33), "boosted trees": (1, 13, 30)}
TREES = {"forest": (2, 9, 21), "holed trees": (1, 8), "boosted trees": (0, 4, 11)}
STRINGS = {"texts": ("sugar", "stale", "fresh", "warm"), "frame": ("gold", "black", "west", "south")}


def names(base: str) -> list[tuple[str, str]]:
    """(name, family) of the faults that a base can have."""
    found = [(f"row {row}", "row of a table") for row in ROWS.get(base, ())]
    found += [(f"leaf {leaf}", "leaf of a tree") for leaf in LEAVES.get(base, ())]
    found += [(f"threshold {number}", "threshold of a tree") for number in TREES.get(base, ())]
    return found + [(f"entry {text}", "entry of a vocabulary") for text in STRINGS.get(base, ())]


def change_of(name: str, example: Arrays) -> Change:
    """The change of this name."""
    what, _, which = name.partition(" ")
    if what == "row":
        return lambda model: _row(model, int(which), example)
    if what == "entry":
        return lambda model: _entry(model, which, example)
    weights = ("target_weights", "class_weights") if what == "leaf" else ("nodes_values",)
    return lambda model: _tree(model, weights, int(which), example)


def _row(model: onnx.ModelProto, row: int, example: Arrays) -> Witness | None:
    """Negates one row of the table that a Gather looks up."""
    tables = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if tensor.name in tables and array.ndim == 2 and array.dtype.kind == "f":
            changed = array.copy()
            changed[row] = -changed[row] + 1
            tensor.CopyFrom(numpy_helper.from_array(changed, tensor.name))
            name = next(name for name, values in example.items() if values.dtype.kind == "i")
            return lambda _: {**example, name: np.full_like(example[name], row)}
    return None


def _entry(model: onnx.ModelProto, text: str, example: Arrays) -> Witness | None:
    """Misspells one string of a vocabulary, so that the word or category is no longer known."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if text.encode() in attribute.strings:
                attribute.strings[list(attribute.strings).index(text.encode())] = text.encode() + b"_"
                return lambda original: _first_difference(original, _with_text(example, text))
    return None


def _with_text(example: Arrays, text: str) -> list[Arrays]:
    names = [name for name, array in example.items() if array.dtype.kind in "OUS"]
    return [{**example, name: np.full_like(example[name], text, dtype=object)} for name in names]


def _first_difference(_: Original, choices: list[Arrays]) -> Arrays:
    """The choice for the column in which the text was known; which one is checked by whoever asked."""
    known = {"gold": 0, "black": 0, "west": 1, "south": 1}
    texts = {str(next(iter(array.ravel()))) for array in choices[0].values() if array.dtype.kind in "OUS"}
    index = next((known[text] for text in texts if text in known), 0)
    return choices[min(index, len(choices) - 1)]


def _tree(model: onnx.ModelProto, attributes: tuple[str, ...], index: int, example: Arrays) -> Witness | None:
    """Moves one leaf's answer, or one threshold, of a tree ensemble."""
    right = onnx.ModelProto()
    right.CopyFrom(model)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in attributes and len(attribute.floats) > index:
                attribute.floats[index] += 5.0 if attribute.name != "nodes_values" else 0.7
                return lambda _: _landing(right, model, example)
    return None


def _landing(right: onnx.ModelProto, wrong: onnx.ModelProto, example: Arrays) -> Arrays:
    """A row on which the two models differ, out of ten thousand; the example if there is none."""
    import onnxruntime

    (name, given), *_ = example.items()
    rows = np.random.default_rng(0).uniform(-2.2, 2.2, (10_000, given.shape[1])).astype(given.dtype)
    answers = [
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, {name: rows}
        )[-1]
        for model in (right, wrong)
    ]
    apart = np.abs(answers[0] - answers[1]).reshape(len(rows), -1).max(1)
    best = int(apart.argmax())
    return {name: rows[best : best + 1]} if apart[best] > 0 else example
