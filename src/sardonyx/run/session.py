"""An onnxruntime session that never takes more threads than the container has and names what was refused."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

# Importing any part of sardonyx has set ORT_DISABLE_TELEMETRY before this line.
import onnxruntime as ort

from sardonyx import machine
from sardonyx.errors import RuntimeRefused, UsageError
from sardonyx.model import Model
from sardonyx.signature import Arrays, Signature, TensorSpec

ort.set_default_logger_severity(4)
if os.environ["ORT_DISABLE_TELEMETRY"] == "1":  # also where a program imported onnxruntime before us
    ort.disable_telemetry_events()

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "dml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
}
# A model in memory is handed over as bytes, and protobuf ends at 2 GiB; the graph itself needs some of it.
BYTES_AT_MOST = (1 << 31) - (1 << 27)
_FAILED_NODE = re.compile(r"running (\S+) node\. Name:'([^']*)'")
_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
# Types that onnxruntime computes with but does not exchange with numpy.
_NOT_EXCHANGED = ("bfloat16", "float8e8m0", "float4e2m1", "int4", "uint4", "int2", "uint2")


@dataclass(frozen=True)
class Settings:
    """How to open a session. `threads` of None means every CPU that the container has."""

    provider: str = "cpu"
    threads: int | None = None
    optimize: bool = True

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"cannot run with {self.threads} threads", hint="give 1 or more")

    @property
    def thread_count(self) -> int:
        return self.threads or machine.threads()


DEFAULTS = Settings()


class Session:
    """A loaded model: `session(inputs)` gives its outputs by name, or those of `outputs` alone.

    A path is opened as it lies on disk; a `Model` is run as it is in memory, with any change made since it was loaded.
    A `signature` that is known already spares a second reading of the file.
    """

    def __init__(
        self,
        model: Model | str | Path,
        settings: Settings = DEFAULTS,
        *,
        outputs: Sequence[str] | None = None,
        signature: Signature | None = None,
    ) -> None:
        self.signature = signature or Signature.of(Model.load(model).ir.graph)
        self.settings = settings
        self._outputs = _chosen(self.signature.outputs, outputs)
        _refuse_unexchanged([*self.signature.inputs, *self._outputs.values()])
        self._session = _open(model, settings)

    @property
    def output_names(self) -> list[str]:
        return list(self._outputs)

    def __call__(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        """The outputs for inputs that fit the signature. A sequence or map output is given as the runtime gives it."""
        return self.run_fitted(self.signature.fit(inputs))

    def run_fitted(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        """The outputs, without the look at names, types and shapes that `__call__` takes first."""
        try:
            values = self._session.run(self.output_names, dict(inputs))
        except Exception as error:
            raise RuntimeRefused(
                f"the model failed while running: {plain(error)}",
                hint="check the sizes of dynamic dimensions and the values of integer inputs, or run sardonyx check",
            ) from error
        return {
            spec.name: _in_own_type(value, spec) for spec, value in zip(self._outputs.values(), values, strict=True)
        }


def provider_name(word: str) -> str:
    """onnxruntime's name for a provider that is available here."""
    name = PROVIDERS.get(word.lower(), word)
    available = ort.get_available_providers()
    if name not in available:
        known = ", ".join(sorted(key for key, value in PROVIDERS.items() if value in available))
        raise UsageError(f"the provider '{word}' is not available here", hint=f"available: {known}")
    return name


def options(settings: Settings) -> ort.SessionOptions:
    """Session options for the settings."""
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = settings.thread_count
    chosen.inter_op_num_threads = 1
    chosen.log_severity_level = 4
    if not settings.optimize:
        chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return chosen


def plain(error: BaseException) -> str:
    """onnxruntime's message without its status prefix; of nested graphs only the innermost node that failed."""
    text = str(error).strip()
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    failed = _FAILED_NODE.findall(text)
    if failed:
        operator, name = failed[-1]
        text = f"{operator} node '{name}': {text.rpartition('Status Message: ')[2]}"
    return " ".join(text.split())


def _chosen(available: Sequence[TensorSpec], wanted: Sequence[str] | None) -> dict[str, TensorSpec]:
    known = {spec.name: spec for spec in available}
    missing = [name for name in wanted or () if name not in known]
    if missing:
        raise UsageError(f"the model has no output {', '.join(missing)}", hint=f"its outputs are {', '.join(known)}")
    return known if wanted is None else {name: known[name] for name in wanted}


def _refuse_unexchanged(specs: Sequence[TensorSpec]) -> None:
    found = [str(spec) for spec in specs if spec.dtype in _NOT_EXCHANGED]
    if found:
        raise RuntimeRefused(
            f"onnxruntime does not exchange this type with numpy: {', '.join(found)}",
            hint="put a Cast to or from float32 at that end of the model",
        )


def _in_own_type(value: Any, spec: TensorSpec) -> Any:
    """8-bit floats come out of onnxruntime as their bytes."""
    return value.view(spec.numpy_dtype) if spec.dtype.startswith("float8") else value


def _open(model: Model | str | Path, settings: Settings) -> ort.InferenceSession:
    provider = provider_name(settings.provider)
    where = (model.path or "the model") if isinstance(model, Model) else model
    try:
        if isinstance(model, Model):
            session = _open_memory(model, options(settings), provider)
        else:
            session = ort.InferenceSession(os.fspath(model), options(settings), providers=[provider])
    except Exception as error:
        raise RuntimeRefused(
            f"onnxruntime does not load {where}: {plain(error)}", hint=f"sardonyx check {where}"
        ) from error
    if provider not in session.get_providers():  # onnxruntime falls back to the CPU and only logs it
        raise RuntimeRefused(
            f"the provider '{settings.provider}' did not start, and onnxruntime fell back to another",
            hint="check the drivers and libraries that the provider needs, or use --provider cpu",
        )
    return session


def _open_memory(model: Model, chosen: ort.SessionOptions, provider: str) -> ort.InferenceSession:
    outside = [
        value.const_value
        for graph in model.ir.graphs()
        for value in graph.initializers.values()
        if isinstance(value.const_value, ir.ExternalTensor)
    ]
    inside = model.weight_bytes() - sum(tensor.nbytes for tensor in outside)
    if inside > BYTES_AT_MOST:
        with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
            path = Path(scratch) / "model.onnx"
            ir.save(model.ir, path, external_data="model.data")
            return ort.InferenceSession(os.fspath(path), chosen, providers=[provider])
    if outside:
        chosen.add_session_config_entry(_DATA_FOLDER, os.fspath(Path(outside[0].base_dir).resolve()))
    return ort.InferenceSession(model.to_proto().SerializeToString(), chosen, providers=[provider])
