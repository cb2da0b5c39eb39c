"""An onnxruntime session that never takes more threads than the container has and names what was refused."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

# Importing any part of sardonyx has set ORT_DISABLE_TELEMETRY before this line.
import onnxruntime as ort

from sardonyx import machine
from sardonyx.errors import BrokenModel, RuntimeRefused, UsageError
from sardonyx.model import Model
from sardonyx.run.bounded import compute, load
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


# How far onnxruntime may change a graph before it runs it.
LEVELS = {
    "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


@dataclass(frozen=True)
class Settings:
    """How to open a session. None means: as the model was tuned on this machine, else as onnxruntime does.

    Without either, `threads` are as many as the container has CPUs. `spinning` lets idle threads wait busily, `arena` keeps
    memory between runs, `prepacking` lays weights out for the kernels, `denormals_as_zero` rounds the tiniest floats
    to zero, which onnxruntime lets the first session of a process decide for all of them. A session that `rests` lets its
    threads sleep between calls, so that they take nothing from another session that has its turn. `level` is how far
    onnxruntime may change the graph, a key of `LEVELS`: as the model says, else `all`; without `optimize` it is `none`.
    """

    provider: str = "cpu"
    threads: int | None = None
    optimize: bool = True
    spinning: bool | None = None
    arena: bool | None = None
    prepacking: bool | None = None
    denormals_as_zero: bool | None = None
    rests: bool = False
    level: str | None = None

    def __post_init__(self) -> None:
        if self.level not in (None, *LEVELS):
            raise UsageError(f"there is no level '{self.level}'", hint=f"the levels are {', '.join(LEVELS)}")
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"cannot run with {self.threads} threads", hint="give 1 or more")

    @property
    def thread_count(self) -> int:
        return self.threads or machine.threads()

    @property
    def tuned(self) -> dict[str, Any]:
        """What is set of the settings that tuning tries."""
        return {name: getattr(self, name) for name in TUNED if getattr(self, name) is not None}

    def filled_from(self, model: Model) -> Settings:
        """These settings, with those that the model carries, for this machine or for any, where nothing is set."""
        carried = {**stored(model), "level": stored_level(model)}
        return replace(self, **{name: value for name, value in carried.items() if getattr(self, name) is None})


DEFAULTS = Settings()
_shared: int | None = None

# The settings that `optimize --tune` tries, with their types, and where a model keeps what it found.
TUNED: dict[str, type] = {
    "threads": int,
    "spinning": bool,
    "arena": bool,
    "prepacking": bool,
    "denormals_as_zero": bool,
}
SETTINGS_KEY = "sardonyx.settings"
# Where a model keeps the level beyond which onnxruntime changes its answers, whatever the machine.
LEVEL_KEY = "sardonyx.optimization_level"


def store(model: Model, settings: Settings) -> None:
    """Writes the settings into the model's metadata, with the machine that they were measured on; none removes them."""
    model.ir.metadata_props.pop(SETTINGS_KEY, None)
    if not settings.tuned:
        return
    record = {"settings": settings.tuned, "machine": _this_machine()}
    model.ir.metadata_props[SETTINGS_KEY] = json.dumps(record, sort_keys=True)


def stored(model: Model) -> dict[str, Any]:
    """The settings that the model was tuned to, if it was tuned on a machine like this one: elsewhere they may slow it down."""
    text = model.ir.metadata_props.get(SETTINGS_KEY)
    if not text:
        return {}
    hint = (
        f"remove the '{SETTINGS_KEY}' entry from the model's metadata, or tune again: sardonyx optimize M -o O --tune"
    )
    try:
        record = json.loads(text)
        settings, measured_on = dict(record["settings"]), record["machine"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BrokenModel(
            f"the model's '{SETTINGS_KEY}' metadata does not hold settings: {error}", hint=hint
        ) from error
    wrong = [name for name, value in settings.items() if type(value) is not TUNED.get(name)]
    if wrong or settings.get("threads", 1) < 1:
        raise BrokenModel(
            f"the model's '{SETTINGS_KEY}' metadata has a wrong {', '.join(wrong) or 'threads'}", hint=hint
        )
    return settings if measured_on == _this_machine() else {}


def store_level(model: Model, level: str) -> None:
    """Writes into the model's metadata how far onnxruntime may change its graph; `all` removes it."""
    model.ir.metadata_props.pop(LEVEL_KEY, None)
    if level != "all":
        model.ir.metadata_props[LEVEL_KEY] = level


def stored_level(model: Model) -> str | None:
    """How far onnxruntime may change the model's graph; None where the model does not say."""
    level = model.ir.metadata_props.get(LEVEL_KEY)
    if level is not None and level not in LEVELS:
        raise BrokenModel(
            f"the model's '{LEVEL_KEY}' metadata has no level but '{level}'",
            hint=f"remove the entry from the model's metadata, or write {', '.join(LEVELS)}",
        )
    return level


def _this_machine() -> dict[str, Any]:
    return {"cpu": machine.cpu_name(), "threads": machine.threads()}


class Session:
    """A loaded model: `session(inputs)` gives its outputs by name, or those of `outputs` alone.

    A path is opened as it lies on disk; a `Model` is run as it is in memory, with any change made since it was loaded.
    Settings that the model was tuned to on this machine fill what `settings` leaves open. A `signature` that is known
    already spares a second reading of the file, and with it the look at tuned settings: see `Settings.filled_from`.
    """

    def __init__(
        self,
        model: Model | str | Path,
        settings: Settings = DEFAULTS,
        *,
        outputs: Sequence[str] | None = None,
        signature: Signature | None = None,
    ) -> None:
        if signature is None:
            loaded = Model.load(model)
            signature, settings = Signature.of(loaded.ir.graph), settings.filled_from(loaded)
        self.signature = signature
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
        values = self.run_some(self.output_names, dict(inputs))
        return {
            spec.name: _in_own_type(value, spec) for spec, value in zip(self._outputs.values(), values, strict=True)
        }

    def run_some(self, outputs: Sequence[str], inputs: dict[str, np.ndarray[Any, Any]]) -> list[Any]:
        """The outputs of these names alone, in their order and as the runtime gives them. Nothing is looked at first."""
        try:
            values = compute(self._session, outputs, inputs)
        except Exception as error:
            raise RuntimeRefused(
                f"the model failed while running: {plain(error)}",
                hint="check the sizes of dynamic dimensions and the values of integer inputs, or run sardonyx check",
            ) from error
        return values


def provider_name(word: str) -> str:
    """onnxruntime's name for a provider that is available here."""
    name = PROVIDERS.get(word.lower(), word)
    available = ort.get_available_providers()
    if name not in available:
        known = ", ".join(sorted(key for key, value in PROVIDERS.items() if value in available))
        raise UsageError(f"the provider '{word}' is not available here", hint=f"available: {known}")
    return name


def share_threads(count: int) -> None:
    """From here on all sessions of this process compute on the same threads; none can have others. Once in a process."""
    global _shared
    ort.set_global_thread_pool_sizes(count, 1)
    _shared = count


def options(settings: Settings) -> ort.SessionOptions:
    """Session options for the settings."""
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = settings.thread_count
    chosen.inter_op_num_threads = 1
    if _shared is not None:
        assert settings.thread_count == _shared, f"{settings.thread_count} threads asked for, {_shared} are shared"
        chosen.use_per_session_threads = False
    chosen.log_severity_level = 4
    for key, value in _entries(settings).items():
        chosen.add_session_config_entry(key, value)
    if settings.arena is not None:
        chosen.enable_cpu_mem_arena = settings.arena
    chosen.graph_optimization_level = LEVELS[(settings.level or "all") if settings.optimize else "none"]
    return chosen


def _entries(settings: Settings) -> dict[str, str]:
    """onnxruntime's own words for what is set."""
    words = {
        "session.intra_op.allow_spinning": settings.spinning,
        "session.disable_prepacking": None if settings.prepacking is None else not settings.prepacking,
        "session.set_denormal_as_zero": settings.denormals_as_zero,
        "session.force_spinning_stop": settings.rests or None,
    }
    return {key: str(int(value)) for key, value in words.items() if value is not None}


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
            session = load(os.fspath(model), options(settings), [provider])
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
            return load(os.fspath(path), chosen, [provider])
    if outside:
        chosen.add_session_config_entry(_DATA_FOLDER, os.fspath(Path(outside[0].base_dir).resolve()))
    return load(model.to_proto().SerializeToString(), chosen, [provider])
