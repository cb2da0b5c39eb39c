"""The tables of rules are complete, certified and documented."""

from __future__ import annotations

import onnx

from gradient_page import PAGE, committed, expected, operators, uncovered
from gradient_table import CASES
from sardonyx.gradient.tables import tables


def test_every_rule_and_expansion_has_a_case() -> None:
    certified = {case.op for case in CASES}
    assert sorted({*tables().rules, *tables().expansions} - certified) == []


def test_case_names_are_distinct() -> None:
    names = [case.id for case in CASES]
    assert len(names) == len(set(names))


def test_every_name_in_the_tables_is_an_operator_of_onnx() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    known = tables()
    assert sorted({*known.rules, *known.expansions, *known.zero, *known.broadcasts} - names) == []


def test_no_operator_is_both_differentiable_and_not() -> None:
    known = tables()
    assert known.zero.isdisjoint({*known.rules, *known.expansions})
    assert set(known.rules).isdisjoint(known.expansions)
    assert known.broadcasts <= set(known.rules)


def test_the_page_names_every_certified_operator_with_its_cases() -> None:
    assert committed() == expected()


def test_the_page_names_what_has_no_gradient_and_what_is_refused() -> None:
    text = PAGE.read_text()
    nature, refused = text.split("## No gradient by nature")[1].split("## Refused")
    assert [op for op in operators() if op in tables().zero] == nature.strip().splitlines()[-1].split(", ")
    assert uncovered() == refused.strip().splitlines()[-1].split(", ")
