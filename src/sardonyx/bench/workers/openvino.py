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
    request, given = model.create_infer_request(), _given(model, inputs)
    return lambda: request.infer(given)


def predict(model: Any, inputs: dict[str, Any], double: bool = False) -> list[tuple[str, Any]]:  # noqa: ARG001
    results = model.create_infer_request().infer(_given(model, inputs))
    return [(port.get_any_name(), results[port]) for port in model.outputs]


def _given(model: Any, inputs: dict[str, Any]) -> dict[Any, Any]:
    """The inputs by name, or by place where the model has other names."""
    by_place = {place: inputs[name] for place, name in enumerate(inputs)}
    known = {name for port in model.inputs for name in port.get_names()}
    return inputs if set(inputs) <= known else by_place
