"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradient_cases._values import normal
from gradient_certify import Case, case


def _recurrent(op: str, gates: int, **settings: Any) -> Case:
    """A layer over [4 steps, 2 samples, 3 features] with a state of 2."""
    name, lengths = settings.pop("name", ""), settings.pop("lengths", None)
    peephole = normal(1, 6) if settings.pop("peephole", False) else None
    ways = 2 if settings.get("direction") == "bidirectional" else 1
    states = [normal(ways, 2, 2) for _ in range(2 if op == "LSTM" else 1)]
    outputs = 3 if op == "LSTM" else 2
    inputs = [
        normal(4, 2, 3),
        normal(ways, gates * 2, 3),
        normal(ways, gates * 2, 2),
        normal(ways, gates * 4),
        lengths,
        *states,
    ]
    if peephole is not None:
        inputs.append(peephole)
    return case(
        op, *inputs, name=name, outputs=outputs, of=tuple(range(outputs)), hidden_size=2, sized=(1, 2, 3, 7), **settings
    )


def _torch_lstm(x: Any, w: Any, r: Any, b: Any, h: Any, c: Any) -> Any:
    """PyTorch orders the gates i, f, g, o, and ONNX i, o, f, c."""
    import torch

    layer = torch.nn.LSTM(3, 2, dtype=torch.float64)

    def order(t: Any) -> Any:
        i, o, f, g = t.chunk(4)
        return torch.cat([i, f, g, o])

    wb, rb = b[0].chunk(2)
    weights = {
        "weight_ih_l0": order(w[0]),
        "weight_hh_l0": order(r[0]),
        "bias_ih_l0": order(wb),
        "bias_hh_l0": order(rb),
    }
    y, (last, cell) = torch.func.functional_call(layer, weights, (x, (h, c)))
    return y[:, None], last, cell


def _torch_gru(x: Any, w: Any, r: Any, b: Any, h: Any) -> Any:
    """PyTorch orders the gates r, z, n, and ONNX z, r, h."""
    import torch

    layer = torch.nn.GRU(3, 2, dtype=torch.float64)

    def order(t: Any) -> Any:
        z, reset, n = t.chunk(3)
        return torch.cat([reset, z, n])

    wb, rb = b[0].chunk(2)
    weights = {
        "weight_ih_l0": order(w[0]),
        "weight_hh_l0": order(r[0]),
        "bias_ih_l0": order(wb),
        "bias_hh_l0": order(rb),
    }
    y, last = torch.func.functional_call(layer, weights, (x, h))
    return y[:, None], last


_LENGTHS = np.array([4, 2], np.int32)
CASES: list[Case] = [
    _recurrent("RNN", 1),
    _recurrent("RNN", 1, name="reverse relu", direction="reverse", activations=["Relu"], second=False),
    _recurrent("RNN", 1, name="both ways with lengths", direction="bidirectional", lengths=_LENGTHS),
    _recurrent("GRU", 3, name="linear before reset", linear_before_reset=1, torch=_torch_gru),
    _recurrent("GRU", 3, name="both ways", direction="bidirectional"),
    _recurrent("GRU", 3, name="lengths", lengths=_LENGTHS, second=False),
    _recurrent("LSTM", 4, torch=_torch_lstm),
    _recurrent("LSTM", 4, name="both ways", direction="bidirectional"),
    _recurrent("LSTM", 4, name="reverse", direction="reverse", second=False),
    _recurrent("LSTM", 4, name="weights alone", direction="bidirectional", fixed=(0,), second=False),
    _recurrent("LSTM", 4, name="both ways with lengths", direction="bidirectional", lengths=_LENGTHS),
    _recurrent("LSTM", 4, name="peephole", peephole=True, second=False),
    _recurrent("LSTM", 4, name="input forget", input_forget=1, second=False),
]
