"""RNN, GRU and LSTM. The gradient of a plain LSTM keeps only what must wait for the next step inside the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from sardonyx.build import Expr, op, ops
from sardonyx.gradient.cells import gru, lstm, rnn
from sardonyx.gradient.loops import scan
from sardonyx.gradient.shapes import full, join_sizes, refined, reshape, reshape_like, size_of, swap_last, zeros_like

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
    outputs = [_joined([op("Unsqueeze", way.hidden, [1]) for way in walked], 1)]
    outputs += [_joined([op("Unsqueeze", way.last[i], [0]) for way in walked], 0) for i in range(2)]
    for index, part in enumerate(outputs):
        at.replace(index, part)
    dx, *rest = zip(*(way.gradients(g) for way in walked), strict=True)
    dw, dr, db, dh, dc = (_joined(parts, 0) for parts in rest)
    return op("Sum", *dx) if len(dx) > 1 else dx[0], dw, dr, db, None, dh, dc, None


def _joined(parts: Sequence[Expr], axis: int) -> Expr:
    return op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class _Way:
    """One direction of a plain LSTM, with all of the node's inputs."""

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
        hidden, recur = self.hidden, swap_last(self.own(self.r, 0))

        def step(states: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            h, c = states
            gates, candidates = ops(2, "Split", op("Gemm", h, recur, now[0]), [3 * hidden, hidden], axis=1)
            open_gates, u = op("Sigmoid", gates), op("Tanh", candidates)
            i, o, f = ops(3, "Split", open_gates, [hidden] * 3, axis=1)
            new = f * c + i * u
            bent = op("Tanh", new)
            return [o * bent, new], [h, c, open_gates, u, bent]

        states, kept = scan(
            self.x.build, [self._first(self.first), self._first(self.cell)], [self._input_gates()], step,
            backwards=[self.backwards], out_backwards=[self.backwards] * 5,
        )  # fmt: skip
        return _Walked(self, states, *kept)

    def _input_gates(self) -> Expr:
        """What the inputs add to the gates of every step, by one product."""
        bias = None
        if self.b is not None:
            halves = ops(2, "Split", self.own(self.b, 0), [4 * self.hidden] * 2, axis=0)
            bias = halves[0] + halves[1]
        product = op("Gemm", reshape(self.x, [-1, self.inputs]), self.own(self.w, 0), bias, transB=1)
        gates = reshape(product, join_sizes([size_of(self.x, 0), size_of(self.x, 1), 4 * self.hidden], self.x))
        if self.x.shape is not None:
            gates.value.shape = ir.Shape([*self.x.shape[:2], 4 * self.hidden])
        return gates

    def own(self, tensor: Expr, axis: int) -> Expr:
        """What belongs to this direction."""
        if tensor.size(axis) != 1:
            tensor = op("Slice", tensor, [self.index], [self.index + 1], [axis])
        return op("Squeeze", tensor, [axis])

    def _first(self, given: Expr | None) -> Expr:
        sizes = join_sizes([size_of(self.x, 1), self.hidden], self.x)
        found = full(sizes, 0, self.x.dtype) if given is None else self.own(given, 0)
        if self.x.shape is not None:
            found.value.shape = ir.Shape([self.x.shape[1], self.hidden])
        return found


@dataclass(frozen=True)
class _Walked:
    """What a direction passed through: the states before each step, the gates, the candidates, and the bent cells."""

    way: _Way
    last: list[Expr]
    h: Expr
    c: Expr
    gates: Expr
    u: Expr
    bent: Expr

    @property
    def hidden(self) -> Expr:
        """The states after each step."""
        edge = op("Unsqueeze", self.last[0], [0])
        if self.way.backwards:
            return refined(op("Concat", edge, op("Slice", self.h, [0], [-1], [0]), axis=0), self.h)
        return refined(op("Concat", op("Slice", self.h, [1], [1 << 31], [0]), edge, axis=0), self.h)

    def gradients(self, g: tuple[Expr | None, ...]) -> tuple[Expr, ...]:
        """Of x, and with the axis of directions of w, r, b and the first states."""
        way, hidden, (u, bent) = self.way, self.way.hidden, (self.u, self.bent)
        i, o, f = ops(3, "Split", self.gates, [hidden] * 3, axis=2)
        di, do, df = ops(3, "Split", self.gates * (1 - self.gates), [hidden] * 3, axis=2)
        slopes = op("Concat", u * di, bent * do, self.c * df, i * (1 - u * u), axis=2)
        states, da = self._walk_back(g, [slopes, o * (1 - bent * bent), f])
        rows = reshape(da, [-1, 4 * hidden])
        seen = op("Concat", reshape(way.x, [-1, way.inputs]), reshape(self.h, [-1, hidden]), axis=1)
        dw, dr = ops(2, "Split", op("Gemm", rows, seen, transA=1), [way.inputs, hidden], axis=1)
        half = op("ReduceSum", rows, [0], keepdims=0)
        dx = reshape_like(op("Gemm", rows, way.own(way.w, 0)), way.x)
        parts = (dw, dr, op("Concat", half, half, axis=0), *states)
        return dx, *(op("Unsqueeze", part, [0]) for part in parts)

    def _walk_back(self, g: tuple[Expr | None, ...], known: list[Expr]) -> tuple[list[Expr], Expr]:
        """From the last step to the first: the gradients of the first states, and of the gates of every step."""
        own, like = self.way.own, self.last[0]
        last = [zeros_like(like) if part is None else refined(own(part, 0), like) for part in g[1:]]
        given = [] if g[0] is None else [own(g[0], 1)]
        recur = own(self.way.r, 0)

        def step(states: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            (dh, dc), (slopes, through_cell, f) = states, now[:3]
            dh = dh + now[3] if given else dh
            dc = dc + dh * through_cell
            da = op("Concat", dc, dh, dc, dc, axis=1) * slopes
            return [da @ recur, dc * f], [da]

        sequences = [*known, *given]
        backwards = not self.way.backwards
        states, [da] = scan(
            like.build, last, sequences, step, backwards=[backwards] * len(sequences), out_backwards=[backwards]
        )
        return states, da


RULES: dict[str, Any] = {"LSTM": _lstm}

EXPANSIONS: dict[str, Any] = {"RNN": rnn, "GRU": gru}
