"""Faults behind conditions are found: every fifth of the 300, or all of them with SARDONYX_ALL_MUTATIONS=1."""

import os

import numpy as np
import pytest

from falsify.mutation_bases import BASES
from falsify.mutations import NEEDED, Fault, Result, Workshop, answered, candidates, markdown, same, seeded

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

SHARE = 1 if os.environ.get("SARDONYX_ALL_MUTATIONS") else 5
CHEAP = [base for base in BASES if "Keras" not in base.name]


@pytest.fixture(scope="module")
def workshop():
    with Workshop() as found:
        yield found


@pytest.mark.timeout(3600)
def test_faults_behind_conditions_are_found(workshop):
    placed = [one for index, one in enumerate(seeded(workshop)) if index % SHARE == 0]
    results = [workshop.found(one) for one in placed]
    missed = [str(result.fault) for result in results if not result.found]
    assert len(missed) <= (1 - NEEDED) * len(results), f"{len(missed)} of {len(results)}: {missed}"


@pytest.mark.parametrize("base", CHEAP, ids=[base.name for base in CHEAP])
def test_the_export_without_a_fault_is_accepted(workshop, base):
    assert workshop.accepts_right_export(base) == ""


def test_a_fault_has_a_witness_on_which_only_the_right_export_agrees(workshop):
    fault = next(f for f in candidates() if f.base == "perceptron" and f.way == "graph" and "above 100" in f.condition)
    placed = workshop.seed(fault)
    original, inputs, right = workshop.base(next(base for base in BASES if base.name == "perceptron"))
    (answer,) = original.predict([placed.witness])
    assert same(answer.arrays, answered(right, placed.witness))
    assert not same(answer.arrays, answered(placed.path, placed.witness))
    assert same(answered(right, inputs.example), answered(placed.path, inputs.example))


def test_a_fault_that_no_accepted_input_shows_is_not_seeded(workshop):
    """An embedding takes no negative index, so nothing can be wrong there."""
    fault = next(f for f in candidates() if f.base == "words" and f.condition == "an integer is negative")
    assert workshop.seed(fault) is None


def test_the_table_counts_what_was_missed():
    faults = [Fault("words", family, "five", "ids", "graph", "offset") for family in ("sign", "sign", "zero")]
    text = markdown([Result(fault, index != 1, "", 0.1) for index, fault in enumerate(faults)])
    assert "| sign | 2 | 1 | words, five (graph) |" in text
    assert "| **all** | 3 | 2 (66.7%) | |" in text


def test_answers_that_differ_by_more_than_a_thousandth_are_not_the_same():
    assert same([np.float32([1, 2])], [np.float32([1, 2.0005])])
    assert not same([np.float32([1, 2])], [np.float32([1, 2.1])])
    assert not same([np.float32([np.nan])], [np.float32([7])])
