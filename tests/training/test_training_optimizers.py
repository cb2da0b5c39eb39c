"""Every optimizer moves a parameter as PyTorch's does, and every loss is PyTorch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.run.session import Session
from sardonyx.training import artifacts
from sardonyx.training.graphs import Rule
from sardonyx.training.losses import LOSSES
from sardonyx.training.optimizers import OPTIMIZERS
from training_models import TEXT, trained

pytestmark = pytest.mark.heavy

RULES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "sgd": ("sgd", {}, lambda p: torch.optim.SGD(p, lr=0.05)),
    "momentum": ("sgd", {"momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    "nesterov": (
        "sgd",
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "dampening": (
        "sgd",
        {"momentum": 0.9, "dampening": 0.3},
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    ),
    "adam": ("adam", {"weight_decay": 0.1}, lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1)),
    "adamw": ("adamw", {"weight_decay": 0.1}, lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)),
    "rmsprop": (
        "rmsprop",
        {"momentum": 0.5, "weight_decay": 0.1},
        lambda p: torch.optim.RMSprop(p, lr=0.05, momentum=0.5, weight_decay=0.1),
    ),
    "adagrad": (
        "adagrad",
        {"lr_decay": 0.1, "initial_accumulator_value": 0.2},
        lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.2),
    ),
    "lion": ("lion", {"weight_decay": 0.1}, lambda p: _Lion(p, lr=0.05, weight_decay=0.1)),
    "adamw_onnxruntime": (
        "adamw_onnxruntime",
        {"weight_decay": 0.1},
        lambda p: _OldAdamW(p, lr=0.05, weight_decay=0.1),
    ),
}


class _Lion(torch.optim.Optimizer):
    """Lion as its paper has it."""

    def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # noqa: ARG002
        for p in self.param_groups[0]["params"]:
            m = self.state[p].setdefault("m", torch.zeros_like(p))
            p.mul_(1 - 0.05 * 0.1).sub_(0.05 * (m * 0.9 + p.grad * 0.1).sign())
            m.mul_(0.99).add_(p.grad * 0.01)


class _OldAdamW(torch.optim.Optimizer):
    """onnxruntime-training's: epsilon before the correction of the bias, decay after the update."""

    def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # noqa: ARG002
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["t"] = state.get("t", 0) + 1
            m, v = (state.setdefault(name, torch.zeros_like(p)) for name in "mv")
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            rate = 0.05 * (1 - 0.999 ** state["t"]) ** 0.5 / (1 - 0.9 ** state["t"])
            p.sub_(rate * m / (v.sqrt() + 1e-6))
            p.mul_(1 - 0.05 * 0.1)


def test_every_optimizer_has_a_case() -> None:
    assert {name for name, _, _ in RULES.values()} == set(OPTIMIZERS)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "two graphs"])
@pytest.mark.parametrize("case", RULES)
def test_it_moves_as_pytorch_does(tmp_path: Path, case: str, fused: bool) -> None:
    name, options, make = RULES[case]
    ours, theirs = trained(tmp_path, Rule(name, options), make, fused=fused, steps=8)
    for parameter, expected in theirs.items():
        # Eight steps of float32 arithmetic in another order.
        np.testing.assert_allclose(ours[parameter], expected, rtol=2e-5, atol=2e-6, err_msg=parameter)


def test_gradients_are_clipped_as_pytorch_does(tmp_path: Path) -> None:
    ours, theirs = trained(
        tmp_path, Rule("sgd", clip_norm=0.1), lambda p: torch.optim.SGD(p, lr=0.05), clip=0.1, steps=4
    )
    for parameter, expected in theirs.items():
        np.testing.assert_allclose(ours[parameter], expected, rtol=1e-5, atol=1e-6)


def test_groups_have_their_own_options(tmp_path: Path) -> None:
    rule = Rule("sgd", {"weight_decay": 0.5}, groups=((("b",), {"weight_decay": 0.0, "lr_scale": 0.1}),))

    def make(params: Any) -> torch.optim.Optimizer:
        w, b = params
        return torch.optim.SGD([{"params": [w], "weight_decay": 0.5}, {"params": [b], "lr": 0.005}], lr=0.05)

    ours, theirs = trained(tmp_path, rule, make, steps=4)
    for parameter, expected in theirs.items():
        np.testing.assert_allclose(ours[parameter], expected, rtol=1e-5, atol=1e-6)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UsageError, match="sgd has no option 'betas'"):
        Rule("sgd", {"betas": 1}).options_for("w")


LOSS_CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "cross_entropy": ("cross_entropy", {}, functional.cross_entropy),
    "weights": (
        "cross_entropy",
        {"weight": [1.0, 2.0, 0.5]},
        lambda x, y: functional.cross_entropy(x, y, torch.tensor([1.0, 2.0, 0.5])),
    ),
    "ignored": (
        "cross_entropy",
        {"ignore_index": 1},
        lambda x, y: functional.cross_entropy(x, y, ignore_index=1),
    ),
    "smoothed": (
        "cross_entropy",
        {"label_smoothing": 0.1, "weight": [1.0, 2.0, 0.5], "ignore_index": 1},
        lambda x, y: functional.cross_entropy(x, y, torch.tensor([1.0, 2.0, 0.5]), ignore_index=1, label_smoothing=0.1),
    ),
    "bce_with_logits": ("bce_with_logits", {}, functional.binary_cross_entropy_with_logits),
    "bce weighted": (
        "bce_with_logits",
        {"pos_weight": [1.0, 3.0, 0.5]},
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor([1.0, 3.0, 0.5])),
    ),
    "mse": ("mse", {}, functional.mse_loss),
    "mse sum": ("mse", {"reduction": "sum"}, lambda x, y: functional.mse_loss(x, y, reduction="sum")),
    "l1": ("l1", {}, functional.l1_loss),
    "huber": ("huber", {"delta": 0.7}, lambda x, y: functional.huber_loss(x, y, delta=0.7)),
    "kl": ("kl", {}, lambda x, y: functional.kl_div(x, y, reduction="batchmean")),
    "kl log": (
        "kl",
        {"log_target": True},
        lambda x, y: functional.kl_div(x, y, reduction="batchmean", log_target=True),
    ),
}


def test_every_loss_has_a_case() -> None:
    assert {name for name, _, _ in LOSS_CASES.values()} == set(LOSSES)


@pytest.mark.parametrize("case", LOSS_CASES)
def test_a_loss_and_its_gradient_are_pytorchs(tmp_path: Path, case: str) -> None:
    name, options, reference = LOSS_CASES[case]
    random = np.random.default_rng(0)
    artifacts.generate_artifacts(Model.from_text(TEXT), loss=name, loss_options=options, artifact_directory=tmp_path)
    x = random.normal(size=(6, 4)).astype(np.float32)
    w, b = (random.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3,)))
    target = random.integers(0, 3, 6) if LOSSES[name].classes else random.random((6, 3)).astype(np.float32)
    label = "labels" if LOSSES[name].classes else "target"
    found = Session(tmp_path / "training_model.onnx")(
        {"x": x, "w": w, "b": b, label: target, "lazy_reset_grad": np.array(True),
         "w_grad.buffer": np.zeros_like(w), "b_grad.buffer": np.zeros_like(b)}
    )  # fmt: skip
    weight = torch.tensor(w, requires_grad=True)
    loss = reference(torch.tensor(x) @ weight + torch.tensor(b), torch.tensor(target))
    loss.backward()
    assert weight.grad is not None
    np.testing.assert_allclose(found["loss"], loss.item(), rtol=2e-6)
    np.testing.assert_allclose(found["w_grad"], weight.grad.numpy(), rtol=1e-5, atol=1e-6)
