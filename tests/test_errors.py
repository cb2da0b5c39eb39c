"""Errors teach: a message, a hint, a code and an exit code."""

from __future__ import annotations

import inspect
import re

import pytest

from sardonyx import errors
from sardonyx.errors import MissingExtra, NotFound, SardonyxError

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SardonyxError)]
LEAVES = [kind for kind in ALL if kind is not SardonyxError]


def test_every_code_is_one_of_a_kind_and_reads_like_a_word() -> None:
    codes = [kind.code for kind in LEAVES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_shows_every_error_with_its_code_and_exit_code(kind: type[SardonyxError]) -> None:
    assert errors.__doc__ is not None
    line = next(line for line in errors.__doc__.splitlines() if f" {kind.__name__} " in line)
    assert kind.code in line.split()
    assert f"exit {kind.exit_code} " in line
    assert kind.__doc__


def test_the_tree_shows_no_error_that_is_not_there() -> None:
    shown = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    assert sorted(shown) == sorted(kind.__name__ for kind in LEAVES)


def test_an_error_reads_as_its_message_and_travels_as_a_dict() -> None:
    error = NotFound("m.onnx does not exist", hint="check the spelling of the path")
    assert str(error) == "m.onnx does not exist"
    assert error.to_dict() == {
        "code": "not-found",
        "message": "m.onnx does not exist",
        "hint": "check the spelling of the path",
    }


def test_a_missing_extra_names_the_pip_command_and_exits_with_3() -> None:
    error = MissingExtra("converting PyTorch", "torch")
    assert error.hint == "pip install 'sardonyx[torch]'"
    assert error.exit_code == 3
