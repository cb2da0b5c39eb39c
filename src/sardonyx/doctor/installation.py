"""What is installed: versions, the onnxruntime that really loads, the extras, and what sardonyx asks of each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from importlib import metadata

from sardonyx import child, registry, runtime
from sardonyx.history import installed_version

CORE = ("sardonyx", "onnx", "onnxruntime", "onnx-ir", "onnxscript", "numpy", "protobuf", "safetensors")
FRAMEWORKS = (
    "torch", "tensorflow", "tensorflow-cpu", "keras", "tf2onnx", "scikit-learn", "skl2onnx", "xgboost", "xgboost-cpu", "lightgbm",
    "catboost", "onnxmltools", "jax", "jax2onnx", "flax", "equinox", "pillow",
)  # fmt: skip
_LOAD_SECONDS = 120
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?P<bounds>[^;]*)(?:;\s*(?P<marker>.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<name>[\w-]+)['\"]")


@dataclass(frozen=True)
class Loaded:
    """What onnxruntime said of itself when a child process imported it, or why it did not."""

    version: str | None = None
    providers: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True)
class Mismatch:
    """A distribution that is not what sardonyx, or one of its extras, asks for. A version of None: not installed."""

    name: str
    version: str | None
    bounds: str
    extra: str | None


def versions() -> dict[str, str]:
    """The versions of everything that matters and is installed, found without importing it."""
    return {name: version for name in (*CORE, *FRAMEWORKS) if (version := installed_version(name))}


def extras() -> list[dict[str, object]]:
    """Each extra, whether it is there, and the command that brings it."""
    return [
        {"name": name, "installed": registry.installed(name), "install": f"pip install 'sardonyx[{name}]'"}
        for name in registry.EXTRAS
    ]


def loaded_runtime() -> Loaded:
    """onnxruntime as it really loads, tried in a child process."""
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    try:
        ended = subprocess.run(
            child.module("sardonyx.doctor._probe"),
            capture_output=True,
            text=True,
            timeout=_LOAD_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Loaded(trouble=f"importing it took more than {_LOAD_SECONDS} s")
    if ended.returncode < 0:
        return Loaded(trouble=f"importing it ended in {signal.Signals(-ended.returncode).name}")
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or [f"importing it ended with code {ended.returncode}"]
        return Loaded(trouble=last[0])
    answer = json.loads(ended.stdout.strip().splitlines()[-1])
    if answer["providers"] is None:
        return Loaded(answer["version"], trouble="the package is there, but its library is not")
    return Loaded(answer["version"], tuple(answer["providers"]))


def mismatches() -> list[Mismatch]:
    """Where what is installed does not meet the requirements of sardonyx. An extra that is not there is no mismatch."""
    found = []
    for line in _requirements():
        match = _REQUIREMENT.fullmatch(line.strip())
        if match is None:
            continue
        extra = _EXTRA.search(match["marker"] or "")
        version = runtime.installed_release() if match["name"] == "onnxruntime" else installed_version(match["name"])
        if (version is None and extra is None) or (version is not None and not _within(version, match["bounds"])):
            found.append(Mismatch(match["name"], version, match["bounds"].strip(), extra and extra["name"]))
    return found


def _requirements() -> list[str]:
    try:
        return metadata.requires("sardonyx") or []
    except metadata.PackageNotFoundError:
        return []


def _within(version: str, bounds: str) -> bool:
    """Whether a version keeps bounds such as '>=5.28,<7'. Other operators than those two are not judged."""
    for bound in filter(None, (part.strip() for part in bounds.split(","))):
        if bound.startswith(">=") and _numbers(version) < _numbers(bound[2:]):
            return False
        if bound.startswith("<") and not bound.startswith("<=") and _numbers(version) >= _numbers(bound[1:]):
            return False
    return True


def _numbers(version: str) -> list[int]:
    """'2.13.0+cpu' -> [2, 13]. Trailing zeros say nothing: 7 and 7.0 are one version."""
    leading = re.match(r"\s*\d+(\.\d+)*", version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers
