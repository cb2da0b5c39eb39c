"""Every gradient rule against independent references."""

from __future__ import annotations

import numpy as np
import pytest

from gradient_certify import SINGLE_TOLERANCE, TOLERANCE, TORCH_TOLERANCE, Case, certify, difference, gradients
from gradient_table import CASES

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_rule_agrees_with_differences_and_pytorch_to_the_second_order(case: Case) -> None:
    found = certify(case)
    if found.differences is not None:
        assert found.differences < TOLERANCE
    if found.torch is not None:
        assert found.torch < (SINGLE_TOLERANCE if case.single else TORCH_TOLERANCE)
    if found.second is not None:
        assert found.second < TOLERANCE
    assert found.differences is not None or found.torch is not None, "nothing was compared"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_stock_runtime_gives_the_same_in_float32_with_sizes_that_only_the_run_knows(case: Case) -> None:
    exact = gradients(case, dtype=np.float32 if case.single else np.float64)
    stock = gradients(case, dtype=np.float32, dynamic=case.dynamic and not case.text, stock=True)
    for name, gradient in exact.items():
        assert stock[name].dtype == np.float32
        assert difference(stock[name].astype(np.float64), gradient.astype(np.float64)) < SINGLE_TOLERANCE
