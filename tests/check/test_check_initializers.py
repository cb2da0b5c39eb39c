"""Tensors that nothing reads and tensors with the same bytes, inside the model and beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from checking import HEAD, codes, findings, subject

BODY = "a = Add(x, w0) y = Add(a, w1)"


def model(*weights: np.ndarray, body: str = BODY) -> onnx.ModelProto:
    """Weights named w0, w1, ... in the model that `body` computes."""
    made = parser.parse_model(f"{HEAD} g (float[n] x) => (float[n] y) {{ {body} }}")
    made.graph.initializer.extend(numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(weights))
    return made


def noise(seed: int, count: int = 1000) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def saved(made: onnx.ModelProto, folder: Path) -> tuple[onnx.ModelProto, Path]:
    path = folder / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.data", size_threshold=0)
    return onnx.load(path, load_external_data=False), path


def test_different_weights_that_are_read_have_nothing_to_say() -> None:
    assert codes("initializers", subject(model(noise(0), noise(1)))) == []


def test_a_weight_that_nothing_reads_is_named() -> None:
    (found,) = findings("initializers", subject(model(noise(0), noise(1), noise(2))))
    assert (found.severity, found.code, found.where) == ("info", "unused-initializer", "initializer w2")
    assert "3.9 KiB" in found.message


def test_a_large_waste_is_a_warning() -> None:
    big = noise(2, 1 << 19)
    (found,) = findings("initializers", subject(model(noise(0), noise(1), big)))
    assert found.severity == "warning"


def test_a_weight_read_only_inside_a_branch_is_read() -> None:
    body = "y = If (c) <then_branch = t () => (float[n] a) { a = Add(x, w0) }, else_branch = e () => (float[n] b) { b = Neg(x) }>"
    made = parser.parse_model(f"{HEAD} g (bool c, float[n] x) => (float[n] y) {{ {body} }}")
    made.graph.initializer.append(numpy_helper.from_array(noise(0), "w0"))
    assert codes("initializers", subject(made)) == []


def test_a_weight_that_is_an_output_is_read() -> None:
    made = model(noise(0), noise(1), noise(2))
    made.graph.output.append(onnx.helper.make_tensor_value_info("w2", onnx.TensorProto.FLOAT, [1000]))
    assert codes("initializers", subject(made)) == []


def test_equal_bytes_are_found_whatever_field_holds_them() -> None:
    (raw,) = findings("initializers", subject(model(noise(0), noise(0))))
    assert (raw.code, raw.where) == ("duplicate-initializer", "initializer w1")
    assert "w1 those of w0" in raw.message
    made = model(body=BODY)
    for name in ("w0", "w1"):
        made.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [1000], noise(0)))
    assert codes("initializers", subject(made)) == ["duplicate-initializer"]


def test_equal_beginnings_are_not_enough() -> None:
    other = noise(0, 5000)
    other[-1] += 1
    assert codes("initializers", subject(model(noise(0, 5000), other))) == []


def test_equal_bytes_of_another_shape_or_type_are_different_tensors() -> None:
    assert codes("initializers", subject(model(noise(0), noise(0).reshape(10, 100)))) == []
    assert codes("initializers", subject(model(noise(0), noise(0).view(np.int32)))) == []


def test_small_equal_tensors_are_left_alone() -> None:
    assert codes("initializers", subject(model(noise(0, 8), noise(0, 8)))) == []


@pytest.mark.parametrize(("second", "expected"), [(0, ["duplicate-initializer"]), (1, [])])
def test_bytes_beside_the_model_are_compared(tmp_path: Path, second: int, expected: list[str]) -> None:
    made, path = saved(model(noise(0), noise(second)), tmp_path)
    assert codes("initializers", subject(made, path=path)) == expected


def test_tensors_that_share_their_bytes_already_waste_nothing(tmp_path: Path) -> None:
    made, path = saved(model(noise(0), noise(1)), tmp_path)
    shared = made.graph.initializer[0].external_data
    del made.graph.initializer[1].external_data[:]
    made.graph.initializer[1].external_data.extend(shared)
    assert codes("initializers", subject(made, path=path)) == []


def test_data_that_is_not_safe_to_open_is_not_opened(tmp_path: Path) -> None:
    made, path = saved(model(noise(0), noise(0)), tmp_path)
    (tmp_path / "m.data").unlink()
    assert codes("initializers", subject(made, path=path)) == []
