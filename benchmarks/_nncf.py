"""NNCF's accuracy control on an ONNX model, in an environment of its own: python _nncf.py MODEL GIVEN EXPECTED METRIC TARGET.

GIVEN holds inputs (and labels); the first half calibrates, the second validates. EXPECTED holds what the float model says about
the second half. The result is an OpenVINO model. Imports nothing of Sardonyx.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import nncf
import numpy as np
import openvino

BUDGET = 0.01
Array = np.ndarray[Any, Any]
Item = tuple[dict[str, Array], Array]


def main(model: str, given: str, expected: str, metric: str, target: str) -> None:
    with np.load(given) as file:
        arrays = {name: file[name] for name in file.files}
    with np.load(expected) as file:
        truth = file["truth"]
    label = arrays.pop("label", None)
    count = len(next(iter(arrays.values())))
    rows = [{name: array[index : index + 1] for name, array in arrays.items()} for index in range(count)]
    validated = range(count // 2, count)
    items: list[Item] = [(rows[index], truth[index - count // 2]) for index in validated]
    if label is not None:
        items = [(rows[index], label[index]) for index in validated]
    score = SCORES[metric]

    def validate(compiled: Any, data: Iterable[Item]) -> tuple[float, list[float]]:
        found = [score(_answer(compiled, inputs), wanted) for inputs, wanted in data]
        return float(np.mean(found)), found

    quantized = nncf.quantize_with_accuracy_control(
        openvino.Core().read_model(model),
        calibration_dataset=nncf.Dataset(rows[: count // 2]),
        validation_dataset=nncf.Dataset(items),
        validation_fn=validate,
        max_drop=BUDGET,
        drop_type=nncf.DropType.RELATIVE,
    )
    openvino.save_model(quantized, target, compress_to_fp16=False)


def _answer(compiled: Any, inputs: dict[str, Array]) -> Array:
    """The first output of floats, which the metric is about."""
    found = compiled(inputs)
    return next(value[0] for value in found.values() if value.dtype.kind == "f")


def _cosine(found: Array, wanted: Array) -> float:
    a, b = found.ravel().astype(np.float64), wanted.ravel().astype(np.float64)
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30))


SCORES = {
    "accuracy": lambda found, wanted: float(found.argmax(-1) == wanted),
    "agreement": lambda found, wanted: float((found.argmax(-1) == wanted.argmax(-1)).mean()),
    "cosine": _cosine,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
