"""A model in its own framework, as it is: PyTorch eager, TFLite, Keras, scikit-learn, XGBoost, LightGBM, CatBoost, JAX."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sardonyx.bench.variants import _framework
from sardonyx.bench.variants._variant import How, Variant, as_onnx

REQUIRES = None  # the extra is the framework's, and opening the source asks for it


def accepts(source: Any) -> bool:
    return as_onnx(source) is None


def opened(source: Any, how: How) -> AbstractContextManager[Variant]:
    return _framework.opened(source, how)
