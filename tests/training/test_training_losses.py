"""Every loss, with every option, and its gradient are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.run.session import Session
from sardonyx.training import artifacts
from sardonyx.training.losses import LOSSES

pytestmark = pytest.mark.heavy
# The scores are a parameter themselves, so that their gradient comes out.
SCORES = """<ir_version: 10, opset_import: ["": 20]> g (float[n,3PLACES] x) => (float[n,3PLACES] y)
<float[6,3PLACES] w = {VALUES}> { y = Mul(x, w) }"""
WEIGHT = [1.0, 2.0, 0.5]
Reference = Callable[[Tensor, Tensor], Tensor]


def crossed(**options: Any) -> tuple[str, dict[str, Any], Reference]:
    theirs = {**options, "weight": torch.tensor(options["weight"])} if "weight" in options else options
    return "cross_entropy", options, lambda x, y: functional.cross_entropy(x, y, **theirs)


def binary(**options: Any) -> tuple[str, dict[str, Any], Reference]:
    theirs = {name: torch.tensor(value) if isinstance(value, list) else value for name, value in options.items()}
    return "bce_with_logits", options, lambda x, y: functional.binary_cross_entropy_with_logits(x, y, **theirs)


def plain(name: str, function: Any, **options: Any) -> tuple[str, dict[str, Any], Reference]:
    return name, options, lambda x, y: function(x, y, **options)


def divergence(**options: Any) -> tuple[str, dict[str, Any], Reference]:
    return "kl", options, lambda x, y: functional.kl_div(x, y, **{"reduction": "batchmean", **options})


CASES: dict[str, tuple[str, dict[str, Any], Reference]] = {
    "cross_entropy": crossed(),
    "cross_entropy sum": crossed(reduction="sum"),
    "weight": crossed(weight=WEIGHT),
    "weight sum": crossed(weight=WEIGHT, reduction="sum"),
    "ignored": crossed(ignore_index=1),
    "ignored weight": crossed(ignore_index=1, weight=WEIGHT),
    "smoothed": crossed(label_smoothing=0.1),
    "smoothed sum": crossed(label_smoothing=0.1, reduction="sum"),
    "smoothed weight": crossed(label_smoothing=0.2, weight=WEIGHT),
    "smoothed ignored": crossed(label_smoothing=0.2, ignore_index=2),
    "smoothed weight ignored": crossed(label_smoothing=0.1, weight=WEIGHT, ignore_index=1),
    "smoothed weight ignored sum": crossed(label_smoothing=0.1, weight=WEIGHT, ignore_index=1, reduction="sum"),
    "bce": binary(),
    "bce sum": binary(reduction="sum"),
    "bce pos_weight": binary(pos_weight=[1.0, 3.0, 0.5]),
    "bce weight": binary(weight=[1.0, 3.0, 0.5]),
    "bce both sum": binary(weight=[0.2, 1.0, 2.0], pos_weight=[1.0, 3.0, 0.5], reduction="sum"),
    "mse": plain("mse", functional.mse_loss),
    "mse sum": plain("mse", functional.mse_loss, reduction="sum"),
    "l1": plain("l1", functional.l1_loss),
    "l1 sum": plain("l1", functional.l1_loss, reduction="sum"),
    "huber": plain("huber", functional.huber_loss),
    "huber delta": plain("huber", functional.huber_loss, delta=0.7),
    "huber delta sum": plain("huber", functional.huber_loss, delta=1.7, reduction="sum"),
    "kl": divergence(),
    "kl mean": divergence(reduction="mean"),
    "kl sum": divergence(reduction="sum"),
    "kl log": divergence(log_target=True),
}


def test_every_option_of_every_loss_has_a_case() -> None:
    assert {(name, option) for name, options, _ in CASES.values() for option in options} == {
        (loss.name, option) for loss in LOSSES.values() for option in loss.defaults
    }


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss:UserWarning")
@pytest.mark.parametrize("places", [(), (2, 2)], ids=["rows", "pictures"])
@pytest.mark.parametrize("case", CASES)
def test_a_loss_and_its_gradient_are_pytorchs(tmp_path: Path, case: str, places: tuple[int, ...]) -> None:
    name, options, reference = CASES[case]
    if places and name == "bce_with_logits" and len(options) > ("reduction" in options):
        options = {key: np.reshape(value, (3, 1, 1)) if key != "reduction" else value for key, value in options.items()}
        reference = binary(**{key: value.tolist() if key != "reduction" else value for key, value in options.items()})[
            2
        ]
    scores = np.random.default_rng(0).normal(size=(6, 3, *places)).astype(np.float32) * 2
    target = _target(name, options, places)
    loss, gradient = _ours(tmp_path, name, options, scores, target)
    x = torch.tensor(scores, requires_grad=True)
    expected = reference(x, torch.tensor(target))
    expected.backward()
    assert x.grad is not None
    # Some tens of terms are summed in float32.
    np.testing.assert_allclose(loss, expected.item(), rtol=2e-6)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-5, atol=1e-6 * float(x.grad.abs().max()))


def _target(name: str, options: dict[str, Any], places: tuple[int, ...]) -> Any:
    random = np.random.default_rng(1)
    if LOSSES[name].classes:
        labels = random.integers(0, 3, (6, *places))
        labels.flat[0] = options.get("ignore_index", -100)  # one that does not count
        return labels
    found = random.random((6, 3, *places)).astype(np.float32)
    found.flat[0] = 0.0  # log 0 has no part in a divergence
    return np.log(found + 0.1) if options.get("log_target") else found


def _ours(folder: Path, name: str, options: dict[str, Any], scores: Any, target: Any) -> tuple[Any, Any]:
    inner = "".join(f",{size}" for size in scores.shape[2:])
    text = SCORES.replace("PLACES", inner).replace("VALUES", ",".join(map(str, scores.reshape(-1))))
    artifacts.generate_artifacts(Model.from_text(text), loss=name, loss_options=options, artifact_directory=folder)
    label = "labels" if LOSSES[name].classes else "target"
    found = Session(folder / "training_model.onnx")(
        {"x": np.ones_like(scores), "w": scores, label: target, "lazy_reset_grad": np.array(True),
         "w_grad.buffer": np.zeros_like(scores)}
    )  # fmt: skip
    return found["loss"], found["w_grad"]


@pytest.mark.parametrize(("options", "what"), [({"reduction": "none"}, "reduction"), ({"weights": [1.0]}, "weights")])
def test_an_option_that_is_not_there_is_named(options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        artifacts.generate_artifacts(
            Model.from_text(SCORES.replace("PLACES", "").replace("VALUES", ",".join(["0"] * 18))),
            loss="cross_entropy", loss_options=options,
        )  # fmt: skip
