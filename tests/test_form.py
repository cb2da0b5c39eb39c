"""JSON of another form is named by the place where it differs."""

from __future__ import annotations

from typing import Any

import pytest

from sardonyx.form import misfit

FORM = {"files": {str: str}, "sizes": [int], "note?": (str, None), "ratio?": {"low": float}, "any?": object}
WHOLE = {"files": {"a": "b"}, "sizes": [1, 2]}


@pytest.mark.parametrize("more", [{}, {"note": None}, {"note": "x", "more": [1]}, {"ratio": {"low": 1}}, {"any": {}}])
def test_what_fits_has_no_misfit(more: dict[str, Any]) -> None:
    assert misfit({**WHOLE, **more}, FORM) == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"files": []}, "files is not an object"),
        ({"files": {"a": 1}}, "files.a is not a text"),
        ({"sizes": {}}, "sizes is not a list"),
        ({"sizes": [1, True]}, "sizes[1] is not a whole number"),
        ({"sizes": [0] * ((1 << 20) + 1)}, "sizes has 1048577 items"),
        ({"note": 3}, "note is not a text"),
        ({"ratio": {}}, "ratio.low is missing"),
        ({"ratio": {"low": "1"}}, "ratio.low is not a number"),
        ({"files": {"a": "x" * (1 << 23)}}, "files.a is not a text"),
    ],
)
def test_what_does_not_is_named_with_its_place(change: dict[str, Any], words: str) -> None:
    assert misfit({**WHOLE, **change}, FORM) == words


def test_a_value_of_another_kind_altogether_is_named() -> None:
    assert misfit([], FORM) == "it is not an object"
    assert misfit({}, FORM) == "files is missing"
