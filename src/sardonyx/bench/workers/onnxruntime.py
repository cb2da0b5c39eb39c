"""Opens an ONNX model with onnxruntime and nothing else, which is what a cold start and its memory are measured on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

DISTRIBUTIONS = ("onnxruntime",)


def load(source: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = source["threads"], 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(source["path"], options, providers=[source["provider"]])


def prepare(session: Any, inputs: dict[str, Any]) -> Callable[[], object]:
    return lambda: session.run(None, inputs)
