"""Child process: one run of a model by a runtime other than onnxruntime.

Request: `runtime`, `model`, `inputs` (an .npz file), `outputs` (names), `target` (where to write them, as `0`, `1`, ...).
Answer: `reason`, empty where the outputs were written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.signature import Array, Arrays


def by_onnx(model: str, inputs: Arrays, names: list[str]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    return [np.asarray(value) for value in ReferenceEvaluator(model).run(names, inputs)]


def by_openvino(model: str, inputs: Arrays, names: list[str]) -> list[Array]:
    import openvino

    # Without the hint it computes in bfloat16 on a CPU that has it.
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(inputs)
    return [np.asarray(results[name]) for name in names]


RUNTIMES: dict[str, Callable[[str, Arrays, list[str]], list[Array]]] = {"onnx": by_onnx, "openvino": by_openvino}


def answer(request: dict[str, Any]) -> str:
    """Why the runtime gave no answer; empty where its outputs lie at the target."""
    with np.load(request["inputs"], allow_pickle=False) as held:
        inputs = {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in held.items()}
    try:
        outputs = RUNTIMES[request["runtime"]](request["model"], inputs, request["outputs"])
        written = {str(index): array for index, array in enumerate(outputs)}
        if any(array.dtype.kind == "O" for array in outputs):
            written = {name: array.astype(str) for name, array in written.items()}
        np.savez(request["target"], **written)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001  whatever the runtime raises is its answer
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    request = json.load(sys.stdin)
    Path(request["answer"]).write_text(json.dumps({"reason": answer(request)}))


if __name__ == "__main__":
    main()
