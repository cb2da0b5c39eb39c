"""Damaged models given to the verbs: each is a report or a named error; nothing ends the program, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import sardonyx
from fuzz.mutation import damaged_message, mutated
from sardonyx.errors import Internal, SardonyxError
from sardonyx.model import Model
from soak import amount

HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
TEXTS = (
    HEAD + "(float[n,3] x) => (float[n,3] y) <float[3,3] w = {1,0,0,0,2,0,0,0,3}> { t = MatMul(x, w) y = Relu(t) }",
    HEAD
    + "(float[1,2,6,6] x) => (float[1,1,4,4] y) <float[1,2,3,3] w = {"
    + ",".join(["1"] * 18)
    + "}> { y = Conv(x, w) }",
    HEAD
    + "(float[2,4] x) => (float[m] y) <int64[1] s = {-1}, int64[1,2] i = {0,1}> { a = GatherND(x, i) y = Reshape(a, s) }",
    HEAD + "(float[2,4] x) => (float[2,4] y) <float[4] s = {1,1,1,1}> "
    "{ a = LayerNormalization<axis = -1>(x, s) b, c = Split<num_outputs = 2, axis = 1>(a) y = Concat<axis = 1>(c, b) }",
    HEAD + "(float[n,3] x, bool c) => (float[n,3] y) "
    "{ y = If(c)<then_branch = t () => (float[n,3] p) { p = Neg(x) }, else_branch = e () => (float[n,3] q) { q = Abs(x) }> }",
)
VERBS: dict[str, Callable[[Path, Path], object]] = {
    "inspect": lambda model, folder: sardonyx.inspect(model),  # noqa: ARG005
    "graph": lambda model, folder: sardonyx.inspect(model, graph=True),  # noqa: ARG005
    "run": lambda model, folder: sardonyx.run(model, timeout=10),  # noqa: ARG005
    "view": lambda model, folder: sardonyx.view(model, folder / "page.html"),
}


@pytest.fixture(scope="module")
def seeds() -> list[onnx.ModelProto]:
    return [Model.from_text(text).to_proto() for text in TEXTS]


def damaged(seeds: list[onnx.ModelProto], number: int) -> bytes:
    """One in four has damaged bytes, which few readers get past; the others are messages with damaged fields."""
    if number % 4 == 0:
        return mutated([seed.SerializeToString() for seed in seeds], number)
    return damaged_message(seeds[number % len(seeds)], number)


@pytest.mark.heavy
@pytest.mark.soak
@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_model_is_a_report_or_a_named_error(verb: str, seeds: list[onnx.ModelProto], tmp_path: Path) -> None:
    """A crash would end the run of the tests; a hang would be an error that says so."""
    path, faults = tmp_path / "m.onnx", []
    for number in range(amount(60, 25_000)):
        path.write_bytes(damaged(seeds, number))
        try:
            VERBS[verb](path, tmp_path)
        except Internal as error:
            faults.append((number, error.message))
        except SardonyxError as error:
            faults += [] if error.hint else [(number, error.message)]
        assert {item.name for item in tmp_path.iterdir()} <= {"m.onnx", "page.html"}, number
    assert faults == []
