"""If, Scan and Loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradient_cases._values import normal
from gradient_certify import Case, graph


def _unrolled(h: Any, x: Any, w: Any) -> Any:
    import torch

    ys = []
    for v in x:
        h = (h @ w + v).tanh()
        ys.append(h * v)
    return h, torch.stack(ys)


CASES: list[Case] = [
    graph(
        "If",
        """case (double[N,3] x, double[3] w, bool c) => (double[N,3] y) {
            y = If (c) <
                then_branch = t () => (double[N,3] a) { a = Mul (x, w) },
                else_branch = e () => (double[N,3] b) { s = Sin (x)  b = Add (s, x) }
            >
        }""",
        name=name,
        x=normal(2, 3),
        w=normal(3),
        c=np.array(name == "then"),
        torch=(lambda x, w, c: x * w) if name == "then" else (lambda x, w, c: x.sin() + x),
    )
    for name in ("then", "else")
] + [
    graph(
        "Scan",
        """case (double[B,3] h, double[T,B,3] x, double[3,3] w) => (double[B,3] last, double[T,B,3] ys) {
            last, ys = Scan <num_scan_inputs = 1, body = step (double[B,3] s, double[B,3] v) => (double[B,3] n, double[B,3] o) {
                p = MatMul (s, w)
                q = Add (p, v)
                n = Tanh (q)
                o = Mul (n, v)
            }> (h, x)
        }""",
        h=normal(2, 3),
        x=normal(4, 2, 3),
        w=normal(3, 3),
        torch=_unrolled,
    ),
    graph(
        "Scan",
        """case (double[B,3] h, double[B,T,3] x, double[3] w) => (double[B,3] last, double[B,T,3] ys) {
            last, ys = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
                             scan_output_directions = [0],
                             body = step (double[B,3] s, double[B,3] v) => (double[B,3] n, double[B,3] o) {
                p = Mul (s, w)
                n = Add (p, v)
                o = Sin (n)
            }> (h, x)
        }""",
        name="backwards on an inner axis",
        h=normal(2, 3),
        x=normal(2, 4, 3),
        w=normal(3),
    ),
    graph(
        "Loop",
        """case (int64 n, double[3] h, double[3] w) => (double[3] last, double[T,3] ys) {
            start = Constant <value = bool {1}> ()
            last, ys = Loop (n, start, h) <body = step (int64 i, bool go, double[3] s) => (bool on, double[3] next, double[3] o) {
                on = Identity (go)
                f = CastLike (i, s)
                p = Mul (s, w)
                q = Add (p, f)
                next = Tanh (q)
                o = Mul (next, w)
            }>
        }""",
        n=np.array(3),
        h=normal(3),
        w=normal(3),
    ),
    graph(
        "Loop",
        """case (double[3] h, double[3] w) => (double[3] last) {
            start = Constant <value = bool {1}> ()
            last = Loop ("", start, h) <body = step (int64 i, bool go, double[3] s) => (bool on, double[3] next) {
                four = Constant <value = int64 {4}> ()
                on = Less (i, four)
                p = Mul (s, w)
                next = Sin (p)
            }>
        }""",
        name="until",
        h=normal(3),
        w=normal(3),
    ),
]
