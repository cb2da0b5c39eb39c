"""Operators in float64 where onnxruntime has no kernel and ONNX's reference evaluator none or a wrong one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun


def _sizes(value: Any, rank: int, default: int) -> list[int]:
    return list(value) if value is not None else [default] * rank


def _same(sizes: Any, kernel: Any, strides: Any, dilations: Any, auto_pad: str) -> list[int]:
    low, high = [], []
    for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        low.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
        high.append(total - low[-1])
    return low + high


class Conv(OpRun):
    """By PyTorch."""

    op_domain = ""

    def _run(self, x: Any, w: Any, b: Any = None, auto_pad: Any = None, dilations: Any = None, group: Any = None,
             kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
        import torch

        rank = x.ndim - 2
        steps, gaps = _sizes(strides, rank, 1), _sizes(dilations, rank, 1)
        edges = _sizes(pads, 2 * rank, 0)
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            edges = _same(x.shape[2:], w.shape[2:], steps, gaps, auto_pad)
        padded = np.pad(x, [(0, 0), (0, 0), *zip(edges[:rank], edges[rank:], strict=True)])
        function = getattr(torch.nn.functional, f"conv{rank}d")
        bias = None if b is None else torch.tensor(b)
        return (function(torch.tensor(padded), torch.tensor(w.copy()), bias, steps, 0, gaps, group or 1).numpy(),)


class ConvTranspose(OpRun):
    """By PyTorch, without pads, and then cut."""

    op_domain = ""

    def _run(self, x: Any, w: Any, b: Any = None, auto_pad: Any = None, dilations: Any = None, group: Any = None,
             kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
             strides: Any = None) -> Any:  # fmt: skip
        import torch

        rank = x.ndim - 2
        steps, gaps = _sizes(strides, rank, 1), _sizes(dilations, rank, 1)
        edges, extra = _sizes(pads, 2 * rank, 0), _sizes(output_padding, rank, 0)
        spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], gaps, strict=True)]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            output_shape = [n * s for n, s in zip(x.shape[2:], steps, strict=True)]
        if output_shape is not None:
            totals = [
                s * (n - 1) + e + span - out
                for n, s, e, span, out in zip(x.shape[2:], steps, extra, spans, output_shape, strict=True)
            ]
            low = [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in totals]
            edges = low + [t - a for t, a in zip(totals, low, strict=True)]
        function = getattr(torch.nn.functional, f"conv_transpose{rank}d")
        full = function(torch.tensor(x), torch.tensor(w), None, steps, 0, 0, group or 1, gaps).numpy()
        full = np.pad(full, [(0, 0), (0, 0), *((0, e) for e in extra)])
        cut = tuple(slice(a, full.shape[2 + i] - edges[rank + i]) for i, a in enumerate(edges[:rank]))
        answer = full[(slice(None), slice(None), *cut)]
        return (answer if b is None else answer + b.reshape(-1, *[1] * rank),)


class Pad(OpRun):
    """By numpy, with pads below zero."""

    op_domain = ""

    def _run(self, x: Any, pads: Any, value: Any = None, axes: Any = None, mode: Any = None) -> Any:
        chosen = list(range(x.ndim)) if axes is None else [int(a) % x.ndim for a in axes]
        both = np.zeros((x.ndim, 2), int)
        for i, axis in enumerate(chosen):
            both[axis] = pads[i], pads[len(chosen) + i]
        keep = tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(both, x.shape, strict=True))
        settings = {"constant_values": 0 if value is None else value.reshape(())} if mode in (None, "constant") else {}
        return (np.pad(x[keep], np.maximum(both, 0), mode=mode or "constant", **settings).astype(x.dtype),)


class GlobalLpPool(OpRun):
    op_domain = ""

    def _run(self, x: Any, p: Any = None) -> Any:
        return (np.sum(np.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p),)


class Erf(OpRun):
    op_domain = ""

    def _run(self, x: Any) -> Any:
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


class Gelu(OpRun):
    op_domain = ""

    def _run(self, x: Any, approximate: Any = None) -> Any:
        if approximate == "tanh":
            return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
        return (0.5 * x * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x * math.sqrt(0.5))),)


class LRN(OpRun):
    op_domain = ""

    def _run(self, x: Any, alpha: Any = None, beta: Any = None, bias: Any = None, size: Any = None) -> Any:
        total = np.zeros_like(x)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + size // 2 + 1)
            total[:, c] = np.sum(x[:, low:high] ** 2, axis=1)
        return (x / (bias + alpha / size * total) ** beta,)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


class _Recurrent(OpRun):
    """One direction after the other, one sample after the other, one step after the other."""

    op_domain = ""
    gates = 1

    def turn(self, a: Any, r: Any, b: Any, states: list[Any], p: Any) -> list[Any]:
        raise NotImplementedError

    def _run(self, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *rest: Any, **settings: Any) -> Any:
        self.settings = settings
        count = 2 if self.gates == 4 else 1
        states, peephole = rest[:count], rest[count] if len(rest) > count else None
        steps, batch, _ = x.shape
        ways, hidden = w.shape[0], r.shape[2]
        y = np.zeros((steps, ways, batch, hidden))
        lasts = [np.zeros((ways, batch, hidden)) for _ in range(count)]
        for way in range(ways):
            back = way == 1 or settings.get("direction") == "reverse"
            bias = np.zeros(2 * self.gates * hidden) if b is None else b[way]
            for row in range(batch):
                length = steps if lengths is None else int(lengths[row])
                now = [
                    np.zeros(hidden) if k >= len(states) or states[k] is None else states[k][way, row]
                    for k in range(count)
                ]
                for t in range(length)[:: -1 if back else 1]:
                    a = w[way] @ x[t, row] + bias[: self.gates * hidden]
                    now = self.turn(
                        a, r[way], bias[self.gates * hidden :], now, None if peephole is None else peephole[way]
                    )
                    y[t, way, row] = now[0]
                for k in range(count):
                    lasts[k][way, row] = now[k]
        return (y, *lasts)


class RNN(_Recurrent):
    def turn(self, a: Any, r: Any, b: Any, states: list[Any], p: Any) -> list[Any]:
        total = a + r @ states[0] + b
        return [np.maximum(total, 0) if (self.settings.get("activations") or ["Tanh"])[0] == "Relu" else np.tanh(total)]


class GRU(_Recurrent):
    gates = 3

    def turn(self, a: Any, r: Any, b: Any, states: list[Any], p: Any) -> list[Any]:
        (h,) = states
        n = len(h)
        z = _sigmoid(a[:n] + r[:n] @ h + b[:n])
        reset = _sigmoid(a[n : 2 * n] + r[n : 2 * n] @ h + b[n : 2 * n])
        if self.settings.get("linear_before_reset"):
            inner = reset * (r[2 * n :] @ h + b[2 * n :])
        else:
            inner = r[2 * n :] @ (reset * h) + b[2 * n :]
        return [(1 - z) * np.tanh(a[2 * n :] + inner) + z * h]


class LSTM(_Recurrent):
    gates = 4

    def turn(self, a: Any, r: Any, b: Any, states: list[Any], p: Any) -> list[Any]:
        h, c = states
        n = len(h)
        ai, ao, af, ac = np.split(a + r @ h + b, 4)
        pi, po, pf = np.split(p if p is not None else np.zeros(3 * n), 3)
        i = _sigmoid(ai + pi * c)
        forget = 1 - i if self.settings.get("input_forget") else _sigmoid(af + pf * c)
        new = forget * c + i * np.tanh(ac)
        return [_sigmoid(ao + po * new) * np.tanh(new), new]


class Scan(OpRun):
    """With any direction and axis."""

    op_domain = ""

    def need_context(self) -> bool:
        return True

    def _run(
        self, *inputs: Any, context: Any = None, body: Any = None, num_scan_inputs: Any = None, scan_input_axes: Any = None,
        scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
        attributes: Any = None, bindings: Any = None,
    ) -> Any:  # fmt: skip
        count = len(inputs) - num_scan_inputs
        states, read = list(inputs[:count]), list(inputs[count:])
        ways, axes = scan_input_directions or [0] * len(read), scan_input_axes or [0] * len(read)
        read = [_turned(np.moveaxis(x, axis, 0), way) for x, axis, way in zip(read, axes, ways, strict=True)]
        rows = []
        for turn in zip(*read, strict=True):
            given = dict(zip(self.body.input_names, (*states, *turn), strict=True))
            found = self._run_body({**(context or {}), **given}, bindings=bindings)
            states, row = list(found[:count]), found[count:]
            rows.append(row)
        stacked = [np.stack(column) for column in zip(*rows, strict=True)]
        ways, axes = scan_output_directions or [0] * len(stacked), scan_output_axes or [0] * len(stacked)
        laid = [np.moveaxis(_turned(x, way), 0, axis) for x, axis, way in zip(stacked, axes, ways, strict=True)]
        return (*states, *laid)


def _turned(x: Any, way: int) -> Any:
    return x[::-1] if way else x


REPLACEMENTS = [Gelu, LRN, RNN, GRU, LSTM, Erf, Conv, ConvTranspose, Pad, GlobalLpPool, Scan]
