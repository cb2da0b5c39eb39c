"""A PyTorch model compiled by torch.compile: `torch-compile:file.py:factory`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sardonyx.bench.variants import _framework
from sardonyx.bench.variants._variant import How, Variant
from sardonyx.errors import UsageError
from sardonyx.sources import recognise

REQUIRES = "torch"


def accepts(source: Any) -> bool:  # noqa: ARG001  only by its prefix
    return False


def opened(source: Any, how: How) -> AbstractContextManager[Variant]:
    found = recognise(source, python=how.python, trust=how.trust)
    if found.plugin != "torch":
        raise UsageError(f"torch.compile takes PyTorch models, and {found} is none", hint="leave the prefix out")
    return _framework.opened(source, how, compiled=True)
