"""What an onnxruntime release loads: its newest opset, ai.onnx.ml opset and IR version, as measured by loading."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.resources import files

from sardonyx.errors import UsageError

DISTRIBUTIONS = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino", "onnxruntime-qnn",
    "onnxruntime-rocm", "onnxruntime-migraphx", "onnxruntime-silicon", "onnxruntime-training", "onnxruntime-training-cpu",
    "ort-nightly", "ort-nightly-gpu",
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """The newest versions that a release accepts."""

    release: str
    opset: int
    ml_opset: int
    ir_version: int


@cache
def measured() -> dict[str, Limits]:
    """Release, as '1.31', to its limits. Written by `scripts/measure_runtime_limits.py`."""
    table = json.loads(files("sardonyx").joinpath("runtime_limits.json").read_text())
    return {release: Limits(release, row["opset"], row["ml"], row["ir"]) for release, row in table.items()}


def limits(version: str | None = None) -> Limits:
    """The limits of a release; of the installed one by default. An unmeasured newer release gets those of the newest measured."""
    table = measured()
    oldest, *_, newest = table
    wanted = version or installed_release() or newest
    release = ".".join(wanted.split(".")[:2])
    if release in table:
        return table[release]
    if version is None and _order(release) > _order(newest):
        return table[newest]
    raise UsageError(f"no measurement of onnxruntime {wanted}", hint=f"the measured releases are {oldest} to {newest}")


def installed_release() -> str | None:
    """The version of the onnxruntime distribution that is installed, found without importing it."""
    found = installed_distributions()
    return next(iter(found.values()), None)


def installed_distributions() -> dict[str, str]:
    """Every onnxruntime distribution that is installed. More than one breaks both, in silence (onnxruntime#26247)."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())
