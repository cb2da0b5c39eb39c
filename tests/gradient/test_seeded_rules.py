"""The certification itself: a rule that is wrong in sign, factor, term or axis is caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from gradient_certify import TOLERANCE, Case, Checked, against_differences, model, values, wanted
from gradient_table import CASES
from sardonyx.build import op
from sardonyx.errors import Internal
from sardonyx.gradient import pull
from sardonyx.gradient.tables import tables

# Case, and the wrong rule in place of the right one.
FAULTS: dict[str, tuple[str, Any]] = {
    "sign": ("Sub", (lambda g, y, a, b: g, lambda g, y, a, b: g)),
    "factor": ("Sqrt", lambda g, y, x: g / y),
    "missing term": ("Softmax", lambda g, y, x: g * y),
    "wrong axis": ("LogSoftmax", lambda g, y, x: g - op("Exp", y) * op("ReduceSum", g, [2], keepdims=1)),
    "wrong operand": ("Mul", (lambda g, y, a, b: g * a, lambda g, y, a, b: g * a)),
    "no gradient": ("Div", (lambda g, y, a, b: g / b, None)),
    "derivative of another": ("Sin", lambda g, y, x: g * op("Sin", x)),
    "transposed the wrong way": ("Transpose", lambda g, y, x: op("Transpose", g, perm=[2, 0, 1])),
    "overwrites instead of adding": ("Gather", lambda g, y, x, i: op("ScatterND", x * 0, op("Unsqueeze", i, [-1]), g)),
    "mean without its count": ("ReduceMean", lambda g, y, x, a: op("Expand", op("Unsqueeze", g, a), op("Shape", x))),
    "ties and pads ignored": ("AveragePool-overlap", lambda g, y, x: x * 0 + op("ReduceMean", g, keepdims=1)),
}


def _case(name: str) -> Case:
    return next(case for case in CASES if case.id == name)


def _checked(case: Case) -> Checked:
    return against_differences(model(case), values(case), wanted(case))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = FAULTS[fault]
    case = _case(name)
    assert _checked(case).error < TOLERANCE
    with_fault = replace(tables(), rules=MappingProxyType({**tables().rules, case.op: wrong}))
    monkeypatch.setattr(pull, "tables", _giving(with_fault))
    try:
        error = _checked(case).error
    except Internal as caught:  # a gradient of another shape is caught before any number is
        error = float("inf") if "a gradient of shape" in str(caught) else 0
    assert error > 100 * TOLERANCE


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: value


def test_a_sum_over_the_wrong_broadcast_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "sum_to", lambda g, x: op("ReduceMax", g, [0], keepdims=0) if x.rank == 1 else g)
    assert _checked(_case("Add")).error > 100 * TOLERANCE


def test_a_rule_that_gives_another_shape_is_named_while_the_graph_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(
        tables(), rules=MappingProxyType({**tables().rules, "Exp": lambda g, y, x: op("Unsqueeze", g * y, [0])})
    )
    monkeypatch.setattr(pull, "tables", _giving(wrong))
    with pytest.raises(Internal, match="a gradient of shape"):
        _checked(_case("Exp"))
