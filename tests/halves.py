"""The suite in two halves: `make test` runs each thing once with real parts, `make test-rest` runs the further cases.

A test is in the second half by the mark `rest`: `@pytest.mark.rest` on it, or `split` on its cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def split(cases: Iterable[Any], *first: str, ids: Sequence[str] | None = None) -> list[Any]:
    """The cases as parameters of a test. Those named in `first` run in `make test`, the others are `heavy` and `rest`.

    A case is named by its id, which is the case itself where it is a string. A tuple is the values of several arguments.
    """
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    names = [str(value[0]) for value in values] if ids is None else list(ids)
    assert set(first) <= set(names), f"no such case: {sorted(set(first) - set(names))}"
    return [
        pytest.param(*value, id=name, marks=() if name in first else (pytest.mark.heavy, pytest.mark.rest))
        for value, name in zip(values, names, strict=True)
    ]
