"""Weights for a PyTorch factory: every way they are stored, and what is said when they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.errors import SourceFailed
from sardonyx.sources import Original, recognise
from torch_runs import MODELS, ROWS, answer

pytestmark = pytest.mark.heavy


@pytest.fixture
def weights() -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    return {"linear.weight": torch.randn(2, 3), "linear.bias": torch.randn(2)}


def expected(weights: dict[str, Any]) -> np.ndarray[Any, Any]:
    return ROWS @ weights["linear.weight"].numpy().T + weights["linear.bias"].numpy()


@pytest.mark.parametrize("kind", ["safetensors", "pth", "legacy", "checkpoint", "parallel", "compiled"])
def test_weights_are_taken_from(kind: str, weights: dict[str, Any], tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from torch_models import Small

    path = tmp_path / f"w.{kind}"
    if kind == "safetensors":
        save_file(weights, path)
    else:
        wrapped: Any = {
            "checkpoint": {"epoch": 3, "state_dict": weights},
            "parallel": {f"module.{name}": value for name, value in weights.items()},
            "compiled": {"model": {f"_orig_mod.{name}": value for name, value in weights.items()}},
        }.get(kind, weights)
        torch.save(wrapped, path, _use_new_zipfile_serialization=kind != "legacy")
    model = Small()
    before = model.linear.weight.detach().clone()
    with Original(recognise(model, weights=path)) as original:
        assert np.allclose(answer(original, {"x": ROWS}).arrays[0], expected(weights), atol=1e-6)
        remarks = original.describe()["remarks"]
    told = {
        "checkpoint": "'state_dict'",
        "parallel": "'module.' was taken off",
        "compiled": "'_orig_mod.' was taken off",
    }
    assert told.get(kind, "") in " ".join(remarks)
    assert torch.equal(model.linear.weight, before)


def test_a_factory_takes_weights_in_its_own_process(weights: dict[str, Any], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(weights, tmp_path / "w.safetensors")
    with Original(recognise(f"{MODELS}:Small", weights=tmp_path / "w.safetensors")) as original:
        assert np.allclose(answer(original, {"x": ROWS}).arrays[0], expected(weights), atol=1e-6)


def test_weights_that_do_not_fit_are_named_all_at_once(weights: dict[str, Any], tmp_path: Path) -> None:
    import torch

    path = tmp_path / "w.pth"
    torch.save({"linear.weight": torch.zeros(5, 3), "head.bias": weights["linear.bias"]}, path)
    with pytest.raises(SourceFailed) as caught, Original(recognise(f"{MODELS}:Small", weights=path)):
        pass
    message = caught.value.message
    assert "linear.weight is [5,3] in the file and [2,3] in the model" in message
    assert "missing in the file: linear.bias" in message
    assert "not in the model: head.bias" in message
    assert "settings" in caught.value.hint


def test_a_live_module_with_wrong_weights_fails_in_the_same_words(tmp_path: Path) -> None:
    import torch

    from torch_models import Small

    torch.save({"linear.weight": torch.zeros(2, 3)}, tmp_path / "w.pth")
    with pytest.raises(SourceFailed, match="missing in the file: linear"):  # noqa: SIM117
        with Original(recognise(Small(), weights=tmp_path / "w.pth")):
            pass


def test_weights_that_are_no_weights_say_how_to_save_them(tmp_path: Path) -> None:
    import torch

    from torch_models import Small

    torch.save({"weights": Path("a")}, tmp_path / "w.pth")
    with pytest.raises(SourceFailed, match="holds more than weights") as caught:  # noqa: SIM117
        with Original(recognise(Small(), weights=tmp_path / "w.pth")):
            pass
    assert "state_dict()" in caught.value.hint


def test_shared_weights_may_be_stored_once(tmp_path: Path) -> None:
    import torch

    from torch_traps import TRAPS

    model = TRAPS["tied"].factory()
    torch.save({"embedding.weight": model.state_dict()["embedding.weight"]}, tmp_path / "w.pth")
    with Original(recognise(model, weights=tmp_path / "w.pth")) as original:
        assert answer(original, {"tokens": np.array([[1, 2]])}).arrays[0].shape == (1, 2, 11)
