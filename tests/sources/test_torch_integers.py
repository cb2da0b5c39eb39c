"""Integer arithmetic by script and trace against PyTorch, exhaustively for int8, in every integer type for what is telling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from torch_runs import export, run

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]
TYPES = ("int8", "int16", "int32", "int64", "uint8")
ROUTES = ("script", "trace")


def model(name: str) -> Any:
    import torch_integers

    return getattr(torch_integers, name)()


def numbers(dtype: str) -> Any:
    """All numbers of eight bits; of the others those around zero and at the ends."""
    info = np.iinfo(dtype)
    if info.bits == 8:
        return np.arange(info.min, info.max + 1).astype(dtype)
    near = set(range(-70, 71)) | {
        info.min,
        info.min + 1,
        info.min + 2,
        info.max - 1,
        info.max,
        10**4,
        -(10**4),
        255,
        -256,
    }
    return np.array(sorted(near)).astype(dtype)


def pairs(dtype: str) -> dict[str, Any]:
    """Every number by every divisor: PyTorch refuses zero, and the smallest number by -1 has no answer."""
    x, y = (grid.ravel() for grid in np.meshgrid(numbers(dtype), numbers(dtype)))
    kept = (y != 0) & ~((x == np.iinfo(dtype).min) & (y.astype(np.int64) == -1))
    return {"x": x[kept], "y": y[kept]}


def compare(name: str, route: str, arrays: dict[str, Any], tmp_path: Path, opset: int = 18) -> None:
    """Asserts equal values, types and shapes. The export sees only the first four."""
    import torch

    module = model(name)
    inputs = tuple(f"{key}={value.dtype}[n{',3' * (value.ndim - 1)}]" for key, value in arrays.items())
    example = {key: value[:4].copy() for key, value in arrays.items()}
    exported = export(module, route, tmp_path / "m.onnx", inputs, example, opset=opset)
    assert exported.failure is None, exported.failure
    right = [tensor.numpy() for tensor in module(*(torch.from_numpy(value) for value in arrays.values()))]
    for index, (found, wanted) in enumerate(zip(run(tmp_path / "m.onnx", arrays), right, strict=True)):
        assert (index, found.dtype, found.shape) == (index, wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted, err_msg=f"output {index}")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", TYPES)
def test_division_rounds_as_in_pytorch(dtype: str, route: str, tmp_path: Path) -> None:
    compare("Division", route, pairs(dtype), tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", TYPES)
def test_division_by_numbers_in_the_code_rounds_as_in_pytorch(dtype: str, route: str, tmp_path: Path) -> None:
    compare("ByNumbers", route, {"x": numbers(dtype)}, tmp_path)


@pytest.mark.parametrize("opset", [11, 13, 20])
def test_older_and_newer_opsets_round_alike(opset: int, tmp_path: Path) -> None:
    compare("Division", "trace", pairs("int8"), tmp_path, opset)
    compare("ByNumbers", "trace", {"x": numbers("int16")}, tmp_path, opset)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", TYPES)
def test_shifts_take_any_count(dtype: str, route: str, tmp_path: Path) -> None:
    counts = np.arange(-3, 70).astype(dtype) if dtype != "uint8" else np.arange(70).astype(dtype)
    x, count = (grid.ravel() for grid in np.meshgrid(numbers(dtype), counts))
    compare("Shifts", route, {"x": x, "count": count}, tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", TYPES)
def test_sums_have_pytorchs_types_and_do_not_overflow(dtype: str, route: str, tmp_path: Path) -> None:
    largest = min(np.iinfo(dtype).max, 2**31 - 1)  # onnxruntime adds int64 up in double: beyond 2**53 it is not exact
    x = np.array([[largest, 1, 0], [largest, -5 % 256, 2], [0, 0, 0], [largest, 3, largest]]).astype(dtype)
    compare("Sums", route, {"x": x}, tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", TYPES)
def test_bits(dtype: str, route: str, tmp_path: Path) -> None:
    compare("Bits", route, pairs(dtype), tmp_path)


@pytest.mark.parametrize("route", ROUTES)
def test_bits_of_truth_values(route: str, tmp_path: Path) -> None:
    compare("Bits", route, {"x": np.array([True, True, False, False]), "y": np.array([True, False] * 2)}, tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounded_division_of_floats(dtype: str, route: str, tmp_path: Path) -> None:
    values = np.array(
        [0, 0.1, 0.3, 0.7, 1, 2.5, 3, 7, 1e-3, 1e4, 123456.7, np.inf, -np.inf, np.nan, -0.1, -0.3, -0.7, -1, -2.5, -7]
    )
    x, y = (grid.ravel().astype(dtype) for grid in np.meshgrid(values, values))
    compare("Floats", route, {"x": x, "y": y}, tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "float64"])
def test_bounds_leave_infinity_and_nan(dtype: str, route: str, tmp_path: Path) -> None:
    values = [-9, -3, -2.5, -1, 0, 1, 2, 7] + ([np.inf, -np.inf, np.nan] if "float" in dtype else [])
    x, y = (grid.ravel().astype(dtype) for grid in np.meshgrid(values, values))
    compare("Bounds", route, {"x": x, "y": y}, tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_repeated_indices_are_all_added(dtype: str, route: str, tmp_path: Path) -> None:
    x = np.arange(1, 22).reshape(7, 3).astype(dtype)
    compare("RepeatedIndices", route, {"x": x, "index": np.array([0, 1, 1, 3, 0, 0, 3])}, tmp_path)


@pytest.mark.parametrize("route", ROUTES)
def test_sizes_are_divided_by_one_node_where_they_cannot_be_negative(route: str, tmp_path: Path) -> None:
    for rows in (5, 6, 9):
        compare("Sizes", route, {"x": np.arange(3 * rows, dtype=np.int32).reshape(rows, 3)}, tmp_path)
    operators = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
    assert operators.count("Div") == 2
    assert operators.count("Less") == 1  # of the size that is negative


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32"])
def test_numbers_from_a_branch_are_divided_right(dtype: str, tmp_path: Path) -> None:
    for last in (10, 60):
        compare("AfterBranch", "script", {"x": np.array([-7, -8, 5, last]).astype(dtype)}, tmp_path)


def test_pytorchs_own_forms_are_back_after_an_export(tmp_path: Path) -> None:
    import torch

    compare("ByNumbers", "trace", {"x": numbers("int8")}, tmp_path)

    class Halved(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x // 2

    path = tmp_path / "plain.onnx"
    torch.onnx.export(Halved(), (torch.tensor([-7, 7]),), str(path), dynamo=False, opset_version=18, input_names=["x"])
    assert run(path, {"x": np.array([-7, 7])})[0].tolist() == [-3, 3]
