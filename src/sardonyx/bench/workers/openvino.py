"""Opens an ONNX model with OpenVINO on the CPU, for latency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openvino

DISTRIBUTIONS = ("openvino",)


def load(source: dict[str, Any]) -> Any:
    threads = {"INFERENCE_NUM_THREADS": source["threads"]} if source["threads"] else {}
    return openvino.Core().compile_model(source["path"], "CPU", {"PERFORMANCE_HINT": "LATENCY", **threads})


def prepare(model: Any, inputs: dict[str, Any]) -> Callable[[], object]:
    request = model.create_infer_request()
    by_place = {place: inputs[name] for place, name in enumerate(inputs)}
    known = {name for port in model.inputs for name in port.get_names()}
    given = inputs if set(inputs) <= known else by_place
    return lambda: request.infer(given)
