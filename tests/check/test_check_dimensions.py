"""Dimensions that an exporter fixed in silence show, and honest models do not."""

from __future__ import annotations

import pytest

from checking import HEAD, codes, findings, subject


def flattened(first: str, target: str) -> str:
    """[first, 4, 3, 3] reshaped to the target, as exporters write `flatten`."""
    body = f"<int64[2] s = {{{target}}}> {{ a = Relu(x) y = Reshape(a, s) }}"
    return f"{HEAD} g (float[{first}, 4, 3, 3] x) => (float[m, n] y) {body}"


@pytest.mark.parametrize("target", ["1, -1", "1, 36", "2, 36"])
def test_a_reshape_that_swallows_the_batch_is_found(target: str) -> None:
    found = findings("dimensions", subject(flattened("batch", target)))
    assert [finding.code for finding in found if finding.severity == "warning"] == ["baked-dimension"]
    assert "[?, 4, 3, 3]" in found[0].message
    assert "input 'x'" in found[0].message


@pytest.mark.parametrize("target", ["-1, 36", "0, -1", "0, 36"])
def test_a_reshape_that_keeps_the_batch_is_not(target: str) -> None:
    assert codes("dimensions", subject(flattened("batch", target))) == []


def test_a_target_held_in_a_constant_node_is_read_too() -> None:
    body = "s = Constant<value = int64[2] {1, -1}>() y = Reshape(x, s)"
    text = f"{HEAD} g (float[batch, 4] x) => (float[m, n] y) {{ {body} }}"
    assert codes("dimensions", subject(text)) == ["baked-dimension"]


def test_many_baked_reshapes_are_one_finding() -> None:
    body = "a = Reshape(x, s) b = Reshape(x, s) y = Add(a, b)"
    text = f"{HEAD} g (float[batch, 4] x) => (float[m, n] y) <int64[2] s = {{1, -1}}> {{ {body} }}"
    (found,) = findings("dimensions", subject(text))
    assert "and so do 1 more" in found.message


def test_a_batch_of_one_is_only_worth_knowing() -> None:
    (found,) = findings("dimensions", subject(flattened("1", "1, -1")))
    assert (found.severity, found.code) == ("info", "fixed-batch")
    assert "x[1, 4, 3, 3]" in found.message


def test_an_input_fixed_beside_a_dynamic_one_is_worth_knowing() -> None:
    text = f"{HEAD} g (float[batch, 4] x, float[1, 4] mask) => (float[batch, 4] y) {{ y = Add(x, mask) }}"
    (found,) = findings("dimensions", subject(text))
    assert (found.severity, found.code) == ("info", "mixed-batch")
    assert "mask[1, 4] is fixed" in found.message


def test_an_output_fixed_beside_a_dynamic_input_is_worth_knowing() -> None:
    text = f"{HEAD} g (float[batch, 4] x) => (float[1, 4] y) {{ y = ReduceSum(x, a) }}".replace(
        "{ y", "<int64[1] a = {0}> { y"
    )
    (found,) = findings("dimensions", subject(text))
    assert (found.severity, found.code) == ("info", "fixed-output")


def test_a_state_with_the_batch_in_its_second_dimension_is_left_alone() -> None:
    text = f"{HEAD} g (float[batch, 4] x, float[1, batch, 4] h) => (float[1, batch, 4] y) {{ y = Add(h, x) }}"
    assert codes("dimensions", subject(text)) == []


def test_scalars_and_unknown_ranks_are_left_alone() -> None:
    assert codes("dimensions", subject(f"{HEAD} g (float x, float[] z) => (float y) {{ y = Add(x, z) }}")) == []
