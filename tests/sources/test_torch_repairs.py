"""What is changed in the copy of a PyTorch model that is exported: the answers stay, the original is not touched."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from halves import split
from sardonyx.sources import Failure, Original, recognise
from torch_runs import MODELS, ROUTES, ROWS, export, run

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]
TOKENS = ("tokens=int64[n,length]",)


def seeded(name: str, *arguments: Any) -> Any:
    """The model of this name in torch_models.py, with the same weights every time."""
    import torch

    import torch_models

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return getattr(torch_models, name)(*arguments).eval()


def answers(model: Any, *inputs: Any) -> list[Any]:
    import torch

    with torch.no_grad():
        found = model(*(torch.from_numpy(np.asarray(array)) for array in inputs))
    return [item.numpy() for item in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.rest
@pytest.mark.parametrize("route", ["dynamo", "trace"])
@pytest.mark.parametrize("norm", split([False, True], "True"))
def test_a_padded_transformer_answers_as_with_nested_tensors_for_every_mask(
    route: str, norm: bool, tmp_path: Path
) -> None:
    model = seeded("Padded", norm)
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    example = {"x": x, "padding": np.array([[False, False, False], [False, False, True]])}
    inputs = ("x=float32[n,length,8]", "padding=bool[n,length]")
    exported = export(model, route, tmp_path / "m.onnx", inputs, example)
    assert exported.failure is None
    assert [name.partition(":")[0] for name in exported.notes["repairs"]] == ["nested tensors replaced by padding"]
    masks = [np.array(bits).reshape(2, 3) for bits in itertools.product([False, True], repeat=6)]
    for padding in masks[:-1]:  # PyTorch refuses a batch of nothing but padding
        (right,) = answers(model, x, padding)
        (found,) = run(tmp_path / "m.onnx", {"x": x, "padding": padding})
        np.testing.assert_allclose(found, right, atol=1e-5, err_msg=str(padding))


def test_a_mask_that_is_not_checked_keeps_the_first_places(tmp_path: Path) -> None:
    model = seeded("Padded", True, False)
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    inputs = ("x=float32[n,length,8]", "padding=bool[n,length]")
    example = {"x": x, "padding": np.array([[False, False, False], [False, False, True]])}
    assert export(model, "trace", tmp_path / "m.onnx", inputs, example).failure is None
    for padding in ([[0, 0, 1], [0, 1, 1]], [[0, 1, 0], [1, 1, 0]]):
        (right,) = answers(model, x, np.array(padding, bool))
        (found,) = run(tmp_path / "m.onnx", {"x": x, "padding": np.array(padding, bool)})
        np.testing.assert_allclose(found, right, atol=1e-5)


@pytest.mark.rest
@pytest.mark.parametrize("route", ["dynamo", "trace"])
def test_attention_with_frozen_weights_is_exported(route: str, tmp_path: Path) -> None:
    import torch

    model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval().requires_grad_(False)
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    exported = export(model, route, tmp_path / "m.onnx", ("src=float32[n,length,8]",), {"src": x})
    assert exported.failure is None
    np.testing.assert_allclose(run(tmp_path / "m.onnx", {"src": x})[0], answers(model, x)[0], atol=1e-5)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("route", ROUTES)
def test_rows_are_renormalised_once(route: str, tmp_path: Path) -> None:
    model = seeded("Renormed")
    with Original(recognise(model)) as original:
        exported = original.export(
            route, tmp_path / "m.onnx", example={"tokens": np.array([[0, 1]])}, dynamic={"tokens": {"0": "n"}}, opset=18
        )
    assert exported.failure is None
    done = ["rows of single, bag renormalised once in place of at each look-up (max_norm)"]
    assert exported.notes["repairs"] == ([] if route == "dynamo" else done)
    tokens = np.arange(10).reshape(5, 2)
    for found, right in zip(
        run(tmp_path / "m.onnx", {"tokens": tokens}), answers(copy.deepcopy(model), tokens), strict=True
    ):
        np.testing.assert_allclose(found, right, rtol=1e-6)
    rows = {item.name: item for item in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert route == "dynamo" or {"single.weight", "bag.weight"} <= set(rows)


def test_rows_that_are_read_in_another_way_are_right_by_dynamo(tmp_path: Path) -> None:
    model = seeded("RenormedRead")
    exported = export(
        model, "dynamo", tmp_path / "m.onnx", ("tokens=int64[n,2]",), {"tokens": np.arange(4).reshape(2, 2)}
    )
    assert exported.failure is None
    tokens = np.array([[5, 6], [7, 5]])
    (right,) = answers(copy.deepcopy(model), tokens)
    np.testing.assert_allclose(run(tmp_path / "m.onnx", {"tokens": tokens})[0], right, atol=1e-6)


def test_rows_that_another_layer_reads_are_left_alone(tmp_path: Path) -> None:
    model = seeded("RenormedTied")
    exported = export(model, "trace", tmp_path / "m.onnx", TOKENS, {"tokens": np.array([[0, 1]])})
    assert exported.notes["repairs"] == []


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("build", ["OldNorms", "NewNorms"])
def test_computed_weights_are_computed_once(build: str, route: str, tmp_path: Path) -> None:
    model = seeded(build)
    right = answers(model, ROWS)[0]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    exported = export(model, route, tmp_path / "m.onnx", ("x=float32[n,3]",), {"x": ROWS})
    assert exported.failure is None
    (named,) = exported.notes["repairs"]
    assert "first.weight, second.weight" in named
    np.testing.assert_allclose(run(tmp_path / "m.onnx", {"x": ROWS})[0], right, atol=1e-6)
    np.testing.assert_array_equal(answers(model, ROWS)[0], right)
    assert {name: value.equal(state[name]) for name, value in model.state_dict().items()} == dict.fromkeys(state, True)


def test_training_keeps_computed_weights(tmp_path: Path) -> None:
    import torch

    model = torch.nn.utils.weight_norm(torch.nn.Linear(3, 4))
    exported = export(model, "trace", tmp_path / "m.onnx", ("input=float32[n,3]",), {"input": ROWS}, training=True)
    assert exported.notes["repairs"] == []
    assert "weight_g" in {item.name for item in onnx.load(tmp_path / "m.onnx").graph.initializer}


@pytest.mark.parametrize("route", ROUTES)
def test_a_compiled_submodule_is_exported_as_the_module_that_it_was(route: str, tmp_path: Path) -> None:
    model = seeded("PartlyCompiled")
    exported = export(model, route, tmp_path / "m.onnx", ("x=float32[n,3]",), {"x": ROWS})
    assert exported.failure is None
    assert "torch.compile taken off block" in exported.notes["remarks"]
    assert {"block.0.weight", "block.0.bias"} <= {i.name for i in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert type(model.block).__name__ == "OptimizedModule"


@pytest.mark.parametrize("route", ["dynamo", "trace"])
def test_a_model_that_would_answer_with_a_cache_is_asked_for_none(route: str, tmp_path: Path) -> None:
    model = seeded("Caching")
    with Original(recognise(model)) as original:
        (found,) = original.predict([{"x": ROWS}])
        exported = original.export(route, tmp_path / "m.onnx", example={"x": ROWS}, dynamic={}, opset=18)
    assert not isinstance(found, Failure)
    assert found.names == ("logits",)
    assert exported.notes["remarks"] == [
        "use_cache set to False in the configuration of Caching: the answers have no cache of keys and values"
    ]
    np.testing.assert_allclose(run(tmp_path / "m.onnx", {"x": ROWS})[0], found.arrays[0], atol=1e-6)
    assert model.config.use_cache


@pytest.mark.rest
def test_a_cache_that_cannot_be_switched_off_is_named_with_the_way_out() -> None:
    with Original(recognise(f"{MODELS}:AlwaysCaching")) as original:
        (found,) = original.predict([{"x": ROWS}])
    assert isinstance(found, Failure)
    assert "answers with a Cache, which is no tensor" in found.reason
    assert "use_cache=False" in found.reason
