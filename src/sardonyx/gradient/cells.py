"""RNN, GRU and LSTM with every option they have, written as a Scan over time; what needs no loop stays outside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.errors import NoGradient
from sardonyx.gradient.loops import scan
from sardonyx.gradient.shapes import INT64, full, join_sizes, size_of, split, swap_last, where

Activation = Callable[[Expr], Expr]

# Name to function of x, alpha and beta, with the defaults that ONNX gives the two.
_ACTIVATIONS: dict[str, tuple[Callable[[Expr, float, float], Expr], float, float]] = {
    "relu": (lambda x, a, b: op("Relu", x), 0, 0),
    "tanh": (lambda x, a, b: op("Tanh", x), 0, 0),
    "sigmoid": (lambda x, a, b: op("Sigmoid", x), 0, 0),
    "affine": (lambda x, a, b: a * x + b, 1, 0),
    "leakyrelu": (lambda x, a, b: op("LeakyRelu", x, alpha=a), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: op("ThresholdedRelu", x, alpha=a), 1, 0),
    "scaledtanh": (lambda x, a, b: a * op("Tanh", b * x), 1, 1),
    "hardsigmoid": (lambda x, a, b: op("HardSigmoid", x, alpha=a, beta=b), 0.2, 0.5),
    "elu": (lambda x, a, b: op("Elu", x, alpha=a), 1, 0),
    "softsign": (lambda x, a, b: op("Softsign", x), 0, 0),
    "softplus": (lambda x, a, b: op("Softplus", x), 0, 0),
}


def _activations(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> list[Activation]:
    given_alpha, given_beta = iter(alphas or ()), iter(betas or ())
    found: list[Activation] = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise NoGradient(f"the recurrent activation '{name}' is unknown", hint=f"known: {', '.join(_ACTIVATIONS)}")
        function, a, b = _ACTIVATIONS[name.lower()]
        alpha, beta = next(given_alpha, a) if a else a, next(given_beta, b) if b else b
        found.append(partial(_activate, function, alpha, beta))
    return found


def _activate(function: Callable[[Expr, float, float], Expr], alpha: float, beta: float, x: Expr) -> Expr:
    return function(x, alpha, beta)


def _clipped(x: Expr, clip: float | None) -> Expr:
    return op("Clip", x, x._alike(-clip), x._alike(clip)) if clip else x


def _direction(tensor: Expr | None, index: int) -> Expr | None:
    return None if tensor is None else op("Squeeze", op("Slice", tensor, [index], [index + 1], [0]), [0])


class _Layer:
    """One recurrent layer: its sizes, and how every direction of it is unrolled."""

    def __init__(self, x: Expr, r: Expr, lengths: Expr | None, direction: str, layout: int) -> None:
        self.x = op("Transpose", x, perm=[1, 0, 2]) if layout else x
        self.lengths = lengths
        self.layout = layout
        self.hidden = r.size(2)
        assert self.hidden is not None, "the hidden size of a recurrent layer is known"
        self.directions = ["forward", "reverse"] if direction == "bidirectional" else [direction]

    def first(self, given: Expr | None, index: int) -> Expr:
        """The state before the first step: as given, or zeros."""
        if given is not None:
            turned = op("Transpose", given, perm=[1, 0, 2]) if self.layout else given
            found = _direction(turned, index)
            assert found is not None
            if self.x.shape is not None:
                found.value.shape = ir.Shape([self.x.shape[1], self.hidden or 0])
            return found
        zeros = full(join_sizes([size_of(self.x, 1), self.hidden or 0], self.x), 0, self.x.dtype)
        if self.x.shape is not None:
            zeros.value.shape = ir.Shape([self.x.shape[1], self.hidden or 0])
        return zeros

    def unroll(
        self, way: str, gates: Expr, firsts: list[Expr], turn: Callable[[list[Expr], Expr], list[Expr]]
    ) -> tuple[Expr, list[Expr]]:
        """Every hidden state, in the order of time, and the last states."""
        flip = way == "reverse" and self.lengths is not None
        lengths = self.lengths
        if flip:
            gates = self._reversed(gates)
        sequences, backwards = [gates], [way == "reverse" and not flip]
        if lengths is not None:
            steps = op(
                "Range",
                gates.build.constant(0),
                op("Squeeze", op("Shape", gates, start=0, end=1)),
                gates.build.constant(1),
            )
            sequences, backwards = [gates, steps], [False, False]
            column = op("Unsqueeze", op("Cast", lengths, to=int(INT64)), [1])

        def step(states: list[Expr], slices: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            new = turn(states, slices[0])
            if lengths is None:
                return new, [new[0]]
            live = slices[1] < column
            return [where(live, a, b) for a, b in zip(new, states, strict=True)], [where(live, new[0], 0)]

        finals, stacked = scan(gates.build, firsts, sequences, step, backwards=backwards, out_backwards=[backwards[0]])
        return (self._reversed(stacked[0]) if flip else stacked[0]), finals

    def _reversed(self, x: Expr) -> Expr:
        assert self.lengths is not None
        return op("ReverseSequence", x, op("Cast", self.lengths, to=int(INT64)), time_axis=0, batch_axis=1)

    def answers(self, hidden: list[Expr], lasts: list[list[Expr]]) -> tuple[Expr, ...]:
        """Y and the last states, in the layout of the operator."""
        axis = 2 if self.layout else 1
        y = _joined([op("Unsqueeze", h, [1]) for h in hidden], 1)
        outputs = [op("Transpose", y, perm=[2, 0, 1, 3]) if self.layout else y]
        for states in lasts:
            outputs.append(_joined([op("Unsqueeze", s, [axis - 1]) for s in states], axis - 1))
        return tuple(outputs)


def _joined(parts: list[Expr], axis: int) -> Expr:
    return op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


def _halves(bias: Expr | None, count: int, hidden: int) -> list[Expr | None]:
    """The biases of the inputs' and of the states' products."""
    if bias is None:
        return [None, None]
    return list(split(bias, [bias.build.constant([count * hidden])] * 2, 0))


def _plus(x: Expr, bias: Expr | None) -> Expr:
    return x if bias is None else x + bias


def _parts(x: Expr, count: int, hidden: int) -> list[Expr]:
    return split(x, [x.build.constant(np.array([hidden]))] * count, -1)


def _weights(w: Expr | None) -> Expr:
    assert w is not None
    return swap_last(w)


def rnn(
    x: Expr, w: Expr, r: Expr, b: Expr | None, lengths: Expr | None, first: Expr | None, *, activations: Any,
    activation_alpha: Any, activation_beta: Any, clip: float | None, direction: str, layout: int,
) -> tuple[Expr, ...]:  # fmt: skip
    layer = _Layer(x, r, lengths, direction, layout)
    names = activations or ["Tanh"] * len(layer.directions)
    functions = _activations(names, activation_alpha, activation_beta)
    hidden, lasts = [], []
    for index, way in enumerate(layer.directions):
        wb, rb = _halves(_direction(b, index), 1, layer.hidden or 0)
        gates = _plus(_plus(layer.x @ _weights(_direction(w, index)), wb), rb)
        recur, f = _weights(_direction(r, index)), functions[index]

        def turn(states: list[Expr], a: Expr, recur: Expr = recur, f: Activation = f) -> list[Expr]:
            return [f(_clipped(a + states[0] @ recur, clip))]

        ys, finals = layer.unroll(way, gates, [layer.first(first, index)], turn)
        hidden.append(ys)
        lasts.append(finals[0])
    return layer.answers(hidden, [lasts])


def gru(
    x: Expr, w: Expr, r: Expr, b: Expr | None, lengths: Expr | None, first: Expr | None, *, activations: Any,
    activation_alpha: Any, activation_beta: Any, clip: float | None, direction: str, layout: int, linear_before_reset: int,
) -> tuple[Expr, ...]:  # fmt: skip
    layer = _Layer(x, r, lengths, direction, layout)
    n = layer.hidden or 0
    functions = _activations(
        activations or ["Sigmoid", "Tanh"] * len(layer.directions), activation_alpha, activation_beta
    )
    hidden, lasts = [], []
    for index, way in enumerate(layer.directions):
        wb, rb = _halves(_direction(b, index), 3, n)
        gates = _plus(layer.x @ _weights(_direction(w, index)), wb)
        recur = _weights(_direction(r, index))
        both, third = split(recur, [x.build.constant([2 * n]), x.build.constant([n])], -1)
        bias = [None, None] if rb is None else split(rb, [x.build.constant([2 * n]), x.build.constant([n])], 0)
        f, g = functions[2 * index : 2 * index + 2]

        def turn(
            states: list[Expr], a: Expr, both: Expr = both, third: Expr = third, bias: Any = bias, f: Activation = f,
            g: Activation = g,
        ) -> list[Expr]:  # fmt: skip
            (h,) = states
            az, ar, an = _parts(a, 3, n)
            bz, br = _parts(_plus(h @ both, bias[0]), 2, n)
            z, reset = f(_clipped(az + bz, clip)), f(_clipped(ar + br, clip))
            inner = reset * _plus(h @ third, bias[1]) if linear_before_reset else _plus((reset * h) @ third, bias[1])
            return [(1 - z) * g(_clipped(an + inner, clip)) + z * h]

        ys, finals = layer.unroll(way, gates, [layer.first(first, index)], turn)
        hidden.append(ys)
        lasts.append(finals[0])
    return layer.answers(hidden, [lasts])


def lstm(
    x: Expr, w: Expr, r: Expr, b: Expr | None, lengths: Expr | None, first: Expr | None, cell: Expr | None,
    peephole: Expr | None, *, activations: Any, activation_alpha: Any, activation_beta: Any, clip: float | None,
    direction: str, layout: int, input_forget: int,
) -> tuple[Expr, ...]:  # fmt: skip
    layer = _Layer(x, r, lengths, direction, layout)
    n = layer.hidden or 0
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * len(layer.directions)
    functions = _activations(names, activation_alpha, activation_beta)
    hidden, lasts, cells = [], [], []
    for index, way in enumerate(layer.directions):
        wb, rb = _halves(_direction(b, index), 4, n)
        gates = _plus(_plus(layer.x @ _weights(_direction(w, index)), wb), rb)
        recur = _weights(_direction(r, index))
        looks = None if peephole is None else _parts(_direction(peephole, index) or x, 3, n)
        f, g, out = functions[3 * index : 3 * index + 3]

        def turn(
            states: list[Expr], a: Expr, recur: Expr = recur, looks: Any = looks, f: Activation = f, g: Activation = g,
            out: Activation = out,
        ) -> list[Expr]:  # fmt: skip
            h, c = states
            ai, ao, af, ac = _parts(a + h @ recur, 4, n)
            i = f(_clipped(ai if looks is None else ai + looks[0] * c, clip))
            forget = 1 - i if input_forget else f(_clipped(af if looks is None else af + looks[2] * c, clip))
            new = forget * c + i * g(_clipped(ac, clip))
            o = f(_clipped(ao if looks is None else ao + looks[1] * new, clip))
            return [o * out(new), new]

        firsts = [layer.first(first, index), layer.first(cell, index)]
        ys, finals = layer.unroll(way, gates, firsts, turn)
        hidden.append(ys)
        lasts.append(finals[0])
        cells.append(finals[1])
    return layer.answers(hidden, [lasts, cells])
