"""Carry a trained model to ONNX and prove every step by measuring.

Each verb of the command line is a function here: `sardonyx.check("model.onnx")`. Importing this package imports no
framework, no onnx and no onnxruntime; those are loaded by the first call that needs them.
"""

from __future__ import annotations

import os
import sys

# `python -m sardonyx` puts the current folder first on the path: a file json.py there would be run in place of Python's own.
if not sys.flags.safe_path and sys.argv[:1] == ["-m"] and "sardonyx" in sys.orig_argv:
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != os.getcwd()]

# onnxruntime's wheel reports usage unless this is set before its first import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from typing import TYPE_CHECKING, Any

from sardonyx.bench import bench
from sardonyx.bundle import ship, verify

# A stage's package holds its verb, and importing it here binds the function over the module of the same name.
# See docs/decisions/0002-verbs-are-functions-and-folders.md.
from sardonyx.check import check
from sardonyx.compare import compare
from sardonyx.convert import convert
from sardonyx.demo import demo
from sardonyx.doctor import doctor
from sardonyx.errors import SardonyxError
from sardonyx.inspect import inspect
from sardonyx.optimize import optimize
from sardonyx.package import package
from sardonyx.quantize import quantize
from sardonyx.report import Finding, Report
from sardonyx.run import run
from sardonyx.serve import serve
from sardonyx.training import train
from sardonyx.view import view

if TYPE_CHECKING:
    from sardonyx.model import Model
    from sardonyx.samples import Samples
    from sardonyx.signature import Signature

__version__ = "0.1.0"

__all__ = [
    "Finding",
    "Model",
    "Report",
    "Samples",
    "SardonyxError",
    "Signature",
    "bench",
    "check",
    "compare",
    "convert",
    "demo",
    "doctor",
    "inspect",
    "optimize",
    "package",
    "quantize",
    "run",
    "serve",
    "ship",
    "train",
    "verify",
    "view",
]

_LAZY = {"Model": "sardonyx.model", "Samples": "sardonyx.samples", "Signature": "sardonyx.signature"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'sardonyx' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
