"""Inputs that no output depends on."""

from __future__ import annotations

from checking import HEAD, codes, subject


def test_an_input_that_does_nothing_is_a_warning() -> None:
    assert codes("inputs", subject(f"{HEAD} g (float[n] x, int64 k) => (float[n] y) {{ y = Neg(x) }}")) == [
        "unused-input"
    ]


def test_inputs_that_are_used_have_nothing_to_say() -> None:
    assert codes("inputs", subject(f"{HEAD} g (float[n] x, float[n] z) => (float[n] y) {{ y = Add(x, z) }}")) == []
