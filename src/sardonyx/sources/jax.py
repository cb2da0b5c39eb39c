"""JAX: functions, Flax and Equinox modules, live or built by a factory."""

from __future__ import annotations

import functools
from types import CellType, FunctionType, ModuleType
from typing import Any

from sardonyx.sources._recognise import Subject

REQUIRES = "jax"
SAFER = "write a factory that builds the function and loads its parameters from a .npz or .safetensors file"
PACKAGES = frozenset({"jax", "jaxlib", "flax", "equinox"})


def accepts(subject: Subject) -> str | None:
    """'callable' for an object of JAX, Flax or Equinox, and for a function or callable object whose code uses them."""
    if subject.path is not None:
        return None
    return "callable" if subject.modules & PACKAGES or PACKAGES & _used_by(subject.value) else None


def routes(form: str) -> tuple[str, ...]:  # noqa: ARG001  all forms are callables
    return ("jax2onnx", "jax2onnx-native")


def _used_by(value: Any) -> set[str]:
    """The packages of a function, and those of what its code names or holds; of an object, those of its attributes as well."""
    while isinstance(value, functools.partial):
        value = value.func
    attributes = [] if isinstance(value, FunctionType) else list(getattr(value, "__dict__", {}).values())
    function = value if isinstance(value, FunctionType) else vars(type(value)).get("__call__")
    if not isinstance(function, FunctionType):
        return set()
    held = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    held += [function.__globals__.get(name) for name in function.__code__.co_names]
    held += attributes
    names = [each.__name__ if isinstance(each, ModuleType) else type(each).__module__ for each in held]
    return {name.partition(".")[0] for name in (function.__module__, *names)}
