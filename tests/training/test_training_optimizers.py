"""Every optimizer moves a parameter as PyTorch's does, with groups, clipping, accumulation and schedules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

from sardonyx.errors import UsageError
from sardonyx.training.graphs import Rule
from sardonyx.training.optimizers import OPTIMIZERS
from sardonyx.training.schedules import SCHEDULES, rate
from training_models import trained

pytestmark = pytest.mark.heavy
STEPS, RATE, DECAY = 25, 0.05, 0.1


class _Lion(torch.optim.Optimizer):
    """Lion as its paper has it."""

    def __init__(self, params: Any, lr: float, weight_decay: float, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "betas": betas})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # noqa: ARG002
        for group in self.param_groups:
            slow, fast = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * (m * slow + p.grad * (1 - slow)).sign())
                m.mul_(fast).add_(p.grad * (1 - fast))


class _OldAdamW(torch.optim.Optimizer):
    """onnxruntime-training's: epsilon before the correction of the bias, decay after the update."""

    def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # noqa: ARG002
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["t"] = state.get("t", 0) + 1
                m, v = (state.setdefault(name, torch.zeros_like(p)) for name in "mv")
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                corrected = group["lr"] * (1 - 0.999 ** state["t"]) ** 0.5 / (1 - 0.9 ** state["t"])
                p.sub_(corrected * m / (v.sqrt() + 1e-6))
                p.mul_(1 - group["lr"] * group["weight_decay"])


# Our name, the options in words that PyTorch shares, and PyTorch's class.
RULES: dict[str, tuple[str, dict[str, Any], Callable[..., Any]]] = {
    "sgd": ("sgd", {}, torch.optim.SGD),
    "momentum": ("sgd", {"momentum": 0.9}, torch.optim.SGD),
    "nesterov": ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": DECAY}, torch.optim.SGD),
    "dampening": ("sgd", {"momentum": 0.9, "dampening": 0.3}, torch.optim.SGD),
    "adam": ("adam", {"weight_decay": DECAY, "betas": (0.8, 0.95), "eps": 1e-6}, torch.optim.Adam),
    "adamw": ("adamw", {"weight_decay": DECAY}, torch.optim.AdamW),
    "adamw options": ("adamw", {"weight_decay": 0.0, "betas": (0.7, 0.9), "eps": 1e-4}, torch.optim.AdamW),
    "rmsprop": ("rmsprop", {"alpha": 0.9, "eps": 1e-6}, torch.optim.RMSprop),
    "rmsprop momentum": ("rmsprop", {"momentum": 0.5, "weight_decay": DECAY}, torch.optim.RMSprop),
    "adagrad": ("adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-6}, torch.optim.Adagrad),
    "adagrad decay": ("adagrad", {"weight_decay": DECAY}, torch.optim.Adagrad),
    "lion": ("lion", {"weight_decay": DECAY, "betas": (0.8, 0.95)}, _Lion),
    "adamw_onnxruntime": ("adamw_onnxruntime", {"weight_decay": DECAY}, _OldAdamW),
}
# Each once, with its weight decay, for what all of them share.
ALL = {name: next(rule for rule in RULES.values() if rule[0] == name) for name in OPTIMIZERS}


def agree(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for parameter, expected in theirs.items():
        # Some tens of steps of float32 arithmetic in another order; Adam's division by a root doubles the error.
        np.testing.assert_allclose(ours[parameter], expected, rtol=5e-5, atol=5e-6, err_msg=parameter)


def test_every_optimizer_and_every_option_has_a_case() -> None:
    covered = {(name, option) for name, options, _ in RULES.values() for option in options}
    # onnxruntime-training's AdamW is certified with the options that it came with.
    known = {(each.name, option) for each in OPTIMIZERS.values() for option in each.defaults}
    assert known - covered == {("adamw_onnxruntime", "betas"), ("adamw_onnxruntime", "eps")}


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "two graphs"])
@pytest.mark.parametrize("case", RULES)
def test_it_moves_as_pytorch_does(tmp_path: Path, case: str, fused: bool) -> None:
    name, options, make = RULES[case]
    agree(*trained(tmp_path, Rule(name, options), lambda p: make(p, lr=RATE, **options), fused=fused, steps=STEPS))


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "two graphs"])
@pytest.mark.parametrize("name", ALL)
def test_groups_clipping_accumulation_and_a_schedule_are_pytorchs_together(
    tmp_path: Path, name: str, fused: bool
) -> None:
    _, options, make = ALL[name]
    options = {**options, "weight_decay": DECAY}
    rule = Rule(name, options, groups=((("b*",), {"weight_decay": 0.0, "lr_scale": 0.2}),), clip_norm=0.5)

    def theirs(params: Any) -> Any:
        w, b = params
        return make([{"params": [w]}, {"params": [b], "lr": 0.2 * RATE, "weight_decay": 0.0}], lr=RATE, **options)

    agree(
        *trained(
            tmp_path, rule, theirs, fused=fused, steps=STEPS, clip=0.5, accumulate=1 if fused else 3,
            rates=lambda step: rate("cosine", RATE, step, 30),
            schedule=lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 30),
        )
    )  # fmt: skip


def test_a_clip_that_is_forgotten_is_seen(tmp_path: Path) -> None:
    ours, theirs = trained(tmp_path, Rule("sgd"), lambda p: torch.optim.SGD(p, lr=RATE), clip=0.1, steps=4)
    with pytest.raises(AssertionError):
        agree(ours, theirs)


def _warmed(optimizer: Any, warmup: int, after: Callable[[Any, int], Any], total: int) -> Any:
    first = lr_scheduler.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1)
    return lr_scheduler.SequentialLR(optimizer, [first, after(optimizer, total - warmup)], [warmup])


PYTORCH: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda optimizer, total: lr_scheduler.ConstantLR(optimizer, 1.0, total),
    "linear": lambda optimizer, total: lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total),
    "cosine": lr_scheduler.CosineAnnealingLR,
    "step": lambda optimizer, total: lr_scheduler.StepLR(optimizer, total // 3, 0.1),
}


@pytest.mark.filterwarnings("ignore:The epoch parameter in:UserWarning")
@pytest.mark.parametrize("warmup", [0, 6])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_pytorchs(name: str, warmup: int) -> None:
    total = 30 + warmup
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    make = PYTORCH[name]
    scheduler = _warmed(optimizer, warmup, make, total) if warmup else make(optimizer, total)
    for step in range(total):
        assert rate(name, RATE, step, total, warmup) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9), step
        optimizer.step()
        scheduler.step()


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UsageError, match="sgd has no option 'betas'"):
        Rule("sgd", {"betas": 1}).options_for("w")
