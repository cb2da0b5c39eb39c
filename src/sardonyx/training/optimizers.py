"""Optimizers as ONNX: each is a function from a parameter, its gradient and its state to their next values.

The arithmetic is PyTorch's, except for `adamw_onnxruntime`, which is onnxruntime-training's: epsilon is added before the
bias is corrected, and the weights decay after the update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.errors import UsageError

DOUBLE = ir.DataType.DOUBLE
Update = Callable[..., tuple[Expr, ...]]


@dataclass(frozen=True)
class Clock:
    """The learning rate and the number of the step, of which the first is 1, as values of the graph."""

    rate: Expr
    step: Expr
    _made: dict[tuple[Any, ...], Expr] = field(default_factory=dict)

    def once(self, key: tuple[Any, ...], make: Callable[[], Expr]) -> Expr:
        """What is the same for every parameter is computed once."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def rate_like(self, x: Expr, factor: float = 1.0) -> Expr:
        return self.once(("rate", x.dtype, factor), lambda: _typed(_times(self.rate, factor), x))

    def correction(self, beta: float) -> Expr:
        """1 - beta ** step, in double: in float the first steps would lose half of its digits."""
        power = self.step.build.constant(beta, DOUBLE)
        return self.once(("correction", beta), lambda: 1 - op("Pow", power, self.double_step))

    @property
    def double_step(self) -> Expr:
        return self.once(("step",), lambda: op("Cast", self.step, to=int(DOUBLE)))

    def double_rate(self, factor: float = 1.0) -> Expr:
        return self.once(("double rate", factor), lambda: _times(op("Cast", self.rate, to=int(DOUBLE)), factor))


@dataclass(frozen=True)
class Optimizer:
    """An optimizer by name: what it remembers of every parameter, its options, and its update."""

    name: str
    update: Update
    defaults: Mapping[str, Any] = field(default_factory=dict)
    remembers: Callable[[Mapping[str, Any]], tuple[str, ...]] = field(default=lambda options: ())  # noqa: ARG005
    starts_at: Callable[[Mapping[str, Any]], float] = field(default=lambda options: 0.0)  # noqa: ARG005
    # Whether the old state is read again after the new one may have been written, so that both need a place.
    rereads: bool = False


def _times(x: Expr, factor: float) -> Expr:
    return x if factor == 1.0 else x * factor


def _typed(x: Expr, like: Expr) -> Expr:
    return x if x.dtype == like.dtype else op("Cast", x, to=int(like.dtype))


def _decayed(g: Expr, p: Expr, weight_decay: float) -> Expr:
    """The gradient with that of a squared penalty added."""
    return g + p * weight_decay if weight_decay else g


def _shrunk(p: Expr, clock: Clock, weight_decay: float, lr_scale: float) -> Expr:
    """Decoupled decay: the parameter itself shrinks."""
    return p * (1 - clock.rate_like(p, lr_scale) * weight_decay) if weight_decay else p


def _sgd(
    p: Expr, g: Expr, clock: Clock, *state: Expr,
    momentum: float, dampening: float, nesterov: bool, weight_decay: float, lr_scale: float,
) -> tuple[Expr, ...]:  # fmt: skip
    g = _decayed(g, p, weight_decay)
    rate = clock.rate_like(p, lr_scale)
    if not momentum:
        return (p - rate * g,)
    (velocity,) = state
    fresh = velocity * momentum + g
    if dampening:  # PyTorch starts the velocity with the whole first gradient
        first = clock.step.equals(1)
        fresh = op("Where", first, g, velocity * momentum + g * (1 - dampening))
    return p - rate * (g + fresh * momentum if nesterov else fresh), fresh


def _sums(g: Expr, m: Expr, v: Expr, betas: tuple[float, float]) -> tuple[Expr, Expr]:
    """Adam's two moments, each over (1 - beta): so the gradient and its square are added as they are."""
    return m * betas[0] + g, v * betas[1] + g * g


def _adam_step(
    p: Expr, m: Expr, v: Expr, clock: Clock, betas: tuple[float, float], eps: float, lr_scale: float
) -> Expr:
    """p - rate / c1 * (1 - b1) m / (sqrt((1 - b2) v) / c2 + eps), with all but m and v gathered in two numbers, which are
    cheaper than tensors."""
    scale = clock.once(("adam scale", betas), lambda: op("Sqrt", clock.correction(betas[1]) / (1 - betas[1])))
    rate = clock.once(
        ("adam rate", p.dtype, betas, lr_scale),
        lambda: _typed(clock.double_rate(lr_scale * (1 - betas[0])) / clock.correction(betas[0]) * scale, p),
    )
    small = clock.once(("adam epsilon", p.dtype, betas, eps), lambda: _typed(scale * eps, p))
    return p - rate * (m / (op("Sqrt", v) + small))


def _adam(
    p: Expr, g: Expr, clock: Clock, m: Expr, v: Expr,
    *, betas: tuple[float, float], eps: float, weight_decay: float, lr_scale: float,
) -> tuple[Expr, ...]:  # fmt: skip
    m, v = _sums(_decayed(g, p, weight_decay), m, v, betas)
    return _adam_step(p, m, v, clock, betas, eps, lr_scale), m, v


def _adamw(
    p: Expr, g: Expr, clock: Clock, m: Expr, v: Expr,
    *, betas: tuple[float, float], eps: float, weight_decay: float, lr_scale: float,
) -> tuple[Expr, ...]:  # fmt: skip
    m, v = _sums(g, m, v, betas)
    return _adam_step(_shrunk(p, clock, weight_decay, lr_scale), m, v, clock, betas, eps, lr_scale), m, v


def _adamw_onnxruntime(
    p: Expr, g: Expr, clock: Clock, m: Expr, v: Expr,
    *, betas: tuple[float, float], eps: float, weight_decay: float, lr_scale: float,
) -> tuple[Expr, ...]:  # fmt: skip
    m = m * betas[0] + g * (1 - betas[0])
    v = v * betas[1] + g * g * (1 - betas[1])
    rate = clock.once(
        ("corrected", p.dtype, betas, lr_scale),
        lambda: _typed(
            clock.double_rate(lr_scale) * (op("Sqrt", clock.correction(betas[1])) / clock.correction(betas[0])), p
        ),
    )
    p = p - rate * (m / (op("Sqrt", v) + eps))
    return _shrunk(p, clock, weight_decay, lr_scale), m, v


def _rmsprop(
    p: Expr, g: Expr, clock: Clock, v: Expr, *state: Expr,
    alpha: float, eps: float, momentum: float, weight_decay: float, lr_scale: float,
) -> tuple[Expr, ...]:  # fmt: skip
    g = _decayed(g, p, weight_decay)
    v = v * alpha + g * g * (1 - alpha)
    direction = g / (op("Sqrt", v) + eps)
    rate = clock.rate_like(p, lr_scale)
    if not momentum:
        return p - rate * direction, v
    velocity = state[0] * momentum + direction
    return p - rate * velocity, v, velocity


def _adagrad(
    p: Expr, g: Expr, clock: Clock, total: Expr,
    *, lr_decay: float, eps: float, initial_accumulator_value: float, weight_decay: float, lr_scale: float,  # noqa: ARG001
) -> tuple[Expr, ...]:  # fmt: skip
    g = _decayed(g, p, weight_decay)
    rate = clock.double_rate(lr_scale)
    if lr_decay:
        rate = rate / (1 + (clock.double_step - 1) * lr_decay)
    total = total + g * g
    return p - _typed(rate, p) * (g / (op("Sqrt", total) + eps)), total


def _lion(
    p: Expr, g: Expr, clock: Clock, m: Expr, *, betas: tuple[float, float], weight_decay: float, lr_scale: float
) -> tuple[Expr, ...]:
    """Only the sign of the direction counts (arXiv 2302.06675)."""
    direction = op("Sign", m * betas[0] + g * (1 - betas[0]))
    p = _shrunk(p, clock, weight_decay, lr_scale) - clock.rate_like(p, lr_scale) * direction
    return p, m * betas[1] + g * (1 - betas[1])


def _two_moments(options: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG001
    return ("momentum0", "momentum1")


def _two_sums(options: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG001
    return ("sum", "square_sum")


def _one_moment(options: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG001
    return ("momentum0",)


_ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}

OPTIMIZERS: dict[str, Optimizer] = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer(
            "sgd",
            _sgd,
            {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0},
            lambda options: ("momentum0",) if options["momentum"] else (),
        ),
        Optimizer("adam", _adam, _ADAM, _two_sums),
        Optimizer("adamw", _adamw, {**_ADAM, "weight_decay": 0.01}, _two_sums),
        Optimizer("adamw_onnxruntime", _adamw_onnxruntime, {**_ADAM, "eps": 1e-6}, _two_moments),
        Optimizer(
            "rmsprop",
            _rmsprop,
            {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "weight_decay": 0.0},
            lambda options: ("square", "momentum0") if options["momentum"] else ("square",),
        ),
        Optimizer(
            "adagrad",
            _adagrad,
            {"lr_decay": 0.0, "eps": 1e-10, "initial_accumulator_value": 0.0, "weight_decay": 0.0},
            lambda options: ("total",),  # noqa: ARG005
            lambda options: options["initial_accumulator_value"],
        ),
        Optimizer("lion", _lion, {"betas": (0.9, 0.99), "weight_decay": 0.0}, _one_moment, rereads=True),
    )
}


def named(name: str) -> Optimizer:
    """The optimizer of that name."""
    if name not in OPTIMIZERS:
        raise UsageError(f"there is no optimizer '{name}'", hint=f"choose one of {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name]


def options_of(optimizer: Optimizer, given: Mapping[str, Any]) -> dict[str, Any]:
    """The optimizer's options with its defaults filled in."""
    unknown = sorted(set(given) - set(optimizer.defaults))
    if unknown:
        raise UsageError(
            f"{optimizer.name} has no option '{unknown[0]}'", hint=f"its options: {', '.join(optimizer.defaults)}"
        )
    options = {**optimizer.defaults, **given}
    bad = [name for name, value in options.items() if isinstance(value, float) and not math.isfinite(value)]
    if bad:
        raise UsageError(f"{bad[0]} cannot be {options[bad[0]]}", hint="give a finite number")
    if options.get("nesterov") and not options["momentum"]:
        raise UsageError("Nesterov needs a momentum", hint="give momentum=0.9")
    return options
