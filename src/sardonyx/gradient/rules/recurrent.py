"""RNN, GRU and LSTM. The gradient of a plain LSTM keeps only what must wait for the next step inside the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from sardonyx.build import Expr, op, ops
from sardonyx.gradient.cells import gru, lstm, rnn
from sardonyx.gradient.loops import scan
from sardonyx.gradient.shapes import full, join_sizes, refined, reshape, size_of, swap_last, zeros_like

_PLAIN = ["sigmoid", "tanh", "tanh"]


def _lstm(
    g: tuple[Expr | None, ...], y: Any, x: Expr, w: Expr, r: Expr, b: Expr | None, lengths: Expr | None, first: Expr | None,
    cell: Expr | None, peephole: Expr | None, *, activations: Any, activation_alpha: Any, activation_beta: Any,
    clip: float | None, direction: str, layout: int, input_forget: int, at: Any,
) -> Any:  # fmt: skip
    names = [name.lower() for name in activations or ()]
    plain = all(name == _PLAIN[index % 3] for index, name in enumerate(names))
    if not plain or lengths is not None or peephole is not None or clip or layout or input_forget or w.size(2) is None:
        return at.through(
            lambda: lstm(
                x, w, r, b, lengths, first, cell, peephole, activations=activations, activation_alpha=activation_alpha,
                activation_beta=activation_beta, clip=clip, direction=direction, layout=layout, input_forget=input_forget,
            ), g,
        )  # fmt: skip
    ways = ["forward", "reverse"] if direction == "bidirectional" else [direction]
    walked = [_Way(index, way == "reverse", x, w, r, b, first, cell).walked() for index, way in enumerate(ways)]
    outputs = [_joined([op("Unsqueeze", swap_last(way.hidden), [1]) for way in walked], 1)]
    outputs += [_joined([op("Unsqueeze", swap_last(way.last[i]), [0]) for way in walked], 0) for i in range(2)]
    for index, part in enumerate(outputs):
        at.replace(index, part)
    dx, *rest = zip(*(way.gradients(g, of_inputs=at.needs(0)) for way in walked), strict=True)
    dw, dr, db, dh, dc = (_joined(parts, 0) for parts in rest)
    return op("Sum", *dx) if len(dx) > 1 and at.needs(0) else dx[0], dw, dr, db, None, dh, dc, None


def _joined(parts: Sequence[Expr], axis: int) -> Expr:
    return op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class _Way:
    """One direction of a plain LSTM, with all of the node's inputs.

    Inside, a column is a sample: the weights, which are the larger matrix, then come first in every product, and the gates
    lie one below the other. Both were measured to be faster.
    """

    index: int
    backwards: bool
    x: Expr
    w: Expr
    r: Expr
    b: Expr | None
    first: Expr | None
    cell: Expr | None

    @property
    def hidden(self) -> int:
        return self.r.size(2) or 0

    @property
    def inputs(self) -> int:
        return self.w.size(2) or 0

    def walked(self) -> _Walked:
        """The layer once more, as a loop that keeps what its gradient needs; the operator itself gives hidden states alone."""
        hidden, bias = self.hidden, self._bias()
        weights = op("Concat", self.own(self.w, 0), self.own(self.r, 0), axis=1)

        def step(states: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            h, c = states
            read = op("Concat", now[0], h, axis=0)
            gates, candidates = ops(2, "Split", op("Gemm", weights, read, bias), [3 * hidden, hidden], axis=0)
            i, o, f = ops(3, "Split", op("Sigmoid", gates), [hidden] * 3, axis=0)
            u = op("Tanh", candidates)
            old, fresh = f * c, i * u
            new = old + fresh
            bent = op("Tanh", new)
            seen = o * bent
            # Each slope is a value that is there already, less its product with another: u i (1 - i) = u i - (u i) i.
            slopes = op("Concat", fresh - fresh * i, seen - seen * o, old - old * f, i - fresh * u, axis=0)
            return [seen, new], [read, slopes, o - seen * bent, f, seen]

        states, kept = scan(
            self.x.build, [self._first(self.first), self._first(self.cell)], [swap_last(self.x)], step,
            backwards=[self.backwards], out_backwards=[self.backwards] * 5,
        )  # fmt: skip
        return _Walked(self, weights, states, *kept)

    def _bias(self) -> Expr | None:
        if self.b is None:
            return None
        halves = ops(2, "Split", self.own(self.b, 0), [4 * self.hidden] * 2, axis=0)
        return op("Unsqueeze", halves[0] + halves[1], [1])

    def own(self, tensor: Expr, axis: int) -> Expr:
        """What belongs to this direction."""
        if tensor.size(axis) != 1:
            tensor = op("Slice", tensor, [self.index], [self.index + 1], [axis])
        return op("Squeeze", tensor, [axis])

    def _first(self, given: Expr | None) -> Expr:
        sizes = join_sizes([self.hidden, size_of(self.x, 1)], self.x)
        found = full(sizes, 0, self.x.dtype) if given is None else swap_last(self.own(given, 0))
        if self.x.shape is not None:
            found.value.shape = ir.Shape([self.hidden, self.x.shape[1]])
        return found


@dataclass(frozen=True)
class _Walked:
    """What a direction passed through: inputs and hidden states before each step, the slopes of the gates and of the cells, the
    forget gates, and the hidden states after each step."""

    way: _Way
    weights: Expr
    last: list[Expr]
    read: Expr
    slopes: Expr
    through_cell: Expr
    forget: Expr
    hidden: Expr

    def gradients(self, g: tuple[Expr | None, ...], *, of_inputs: bool) -> tuple[Expr | None, ...]:
        """Of x, and with the axis of directions of w, r, b and the first states."""
        way = self.way
        states, da, dx = self._walk_back(g, of_inputs=of_inputs)
        rows, read = (
            reshape(op("Transpose", part, perm=[1, 0, 2]), [size, -1])
            for part, size in ((da, 4 * way.hidden), (self.read, way.inputs + way.hidden))
        )
        dw, dr = ops(2, "Split", op("Gemm", rows, read, transB=1), [way.inputs, way.hidden], axis=1)
        half = op("ReduceSum", rows, [1], keepdims=0)
        parts = (dw, dr, op("Concat", half, half, axis=0), *map(swap_last, states))
        return None if dx is None else swap_last(dx), *(op("Unsqueeze", part, [0]) for part in parts)

    def _walk_back(self, g: tuple[Expr | None, ...], *, of_inputs: bool) -> tuple[list[Expr], Expr, Expr | None]:
        """From the last step to the first: the gradients of the first states, and of the gates and the inputs of every step."""
        own, like, sizes = self.way.own, self.last[0], [self.way.inputs, self.way.hidden]
        last = [zeros_like(like) if part is None else refined(swap_last(own(part, 0)), like) for part in g[1:]]
        given = [] if g[0] is None else [swap_last(own(g[0], 1))]
        weights = swap_last(self.weights if of_inputs else self.way.own(self.way.r, 0))

        def step(states: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            (dh, dc), (slopes, through_cell, f) = states, now[:3]
            dh = dh + now[3] if given else dh
            dc = dc + dh * through_cell
            da = op("Concat", dc, dh, dc, dc, axis=0) * slopes
            product = weights @ da
            *dx, dh = ops(2, "Split", product, sizes, axis=0) if of_inputs else [product]
            return [dh, dc * f], [da, *dx]

        sequences = [self.slopes, self.through_cell, self.forget, *given]
        backwards = not self.way.backwards
        states, [da, *dx] = scan(
            like.build, last, sequences, step, backwards=[backwards] * len(sequences),
            out_backwards=[backwards] * (1 + of_inputs),
        )  # fmt: skip
        return states, da, dx[0] if of_inputs else None


RULES: dict[str, Any] = {"LSTM": _lstm}

EXPANSIONS: dict[str, Any] = {"RNN": rnn, "GRU": gru}
