"""Counts against PyTorch: its own counter of operations while the module runs, and the parameters it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sardonyx.inspect.summary import Anatomy, dissect
from sardonyx.model import Model

# The exporters warn of themselves being replaced, of PyTorch's own inner workings, and that a trace is a trace.
_WARNINGS = ("DeprecationWarning", "FutureWarning", "UserWarning", "torch.jit.TracerWarning")
pytestmark = [pytest.mark.heavy, *(pytest.mark.filterwarnings(f"ignore::{kind}") for kind in _WARNINGS)]

# Expansion, channels, repeats and stride of each stage of MobileNetV2 (table 2 of arXiv 1801.04381).
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2() -> Any:
    from torch import nn

    def unit(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        convolution = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outside), nn.ReLU6()]

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int, expansion: int) -> None:
            super().__init__()
            hidden = inside * expansion
            widen = unit(inside, hidden, 1) if expansion > 1 else []
            self.layers = nn.Sequential(*widen, *unit(hidden, hidden, 3, stride, hidden), *unit(hidden, outside, 1)[:2])
            self.skips = stride == 1 and inside == outside

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if self.skips else self.layers(x)

    layers, inside = unit(3, 32, 3, 2), 32
    for expansion, outside, repeats, stride in STAGES:
        for index in range(repeats):
            layers.append(Block(inside, outside, stride if index == 0 else 1, expansion))
            inside = outside
    layers += [*unit(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    module = nn.Sequential(*layers)
    for parameter in module.parameters():  # the exporter would store equal biases once
        nn.init.normal_(parameter)
    return module


def exported(module: Any, inputs: tuple[Any, ...], path: Path) -> Anatomy:
    import torch

    attends = any("Attention" in type(part).__name__ for part in module.modules())  # only dynamo exports those
    torch.onnx.export(module.eval(), inputs, path, dynamo=attends, opset_version=18, verbose=False)
    return dissect(Model.load(path), {})


def counted_by_torch(module: Any, inputs: tuple[Any, ...]) -> int:
    """Half of the operations that PyTorch counts: it takes a multiplication and an addition for two."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # The counter cannot see into fused kernels, which PyTorch takes where it may: in evaluation, and for attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module.train()(*inputs)
    return counter.get_total_flops() // 2


def test_mobilenet_v2_has_its_published_figures(tmp_path: Path) -> None:
    import torch

    module, image = mobilenet_v2(), (torch.randn(1, 3, 224, 224),)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    assert parameters == 3_504_872, "the published 3.50 M"
    found = exported(module, image, tmp_path / "m.onnx")
    scales = sum(layer.num_features for layer in module.modules() if isinstance(layer, torch.nn.BatchNorm2d))
    assert found.parameters == parameters - scales, "the export multiplies each scale into its convolution"
    assert found.costs.total == counted_by_torch(module, image)
    assert found.costs.total == pytest.approx(300e6, rel=0.01)


def test_a_fault_in_the_count_would_be_noticed(tmp_path: Path) -> None:
    import torch

    image = (torch.randn(1, 4, 8, 8),)
    grouped, plain = (torch.nn.Conv2d(4, 8, 3, groups=groups) for groups in (2, 1))
    assert exported(grouped, image, tmp_path / "m.onnx").costs.total != counted_by_torch(plain, image)


def modules() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    import torch
    from torch import nn

    class Products(nn.Module):
        def forward(self, a: Any, b: Any, c: Any) -> Any:
            joined = torch.einsum("bhqd,bhkd->bhqk", a, b)
            return torch.matmul(joined, c) @ c.transpose(-1, -2)

    class Attention(nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return nn.functional.scaled_dot_product_attention(q, k, v)

    class Cells(nn.Module):
        """An LSTM written as cells, which the counter can see into; nn.LSTM itself is one opaque kernel."""

        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(5, 7)

        def forward(self, sequence: Any, state: Any) -> Any:
            hidden = memory = state
            for element in sequence.unbind():
                hidden, memory = self.cell(element, (hidden, memory))
            return hidden

    return {
        "linear": (nn.Linear(7, 3), (torch.randn(4, 6, 7),)),
        "one dimension": (nn.Conv1d(4, 6, 5, stride=2, padding=2), (torch.randn(2, 4, 17),)),
        "three dimensions": (nn.Conv3d(2, 4, 3, padding=1), (torch.randn(1, 2, 5, 6, 7),)),
        "grouped and dilated": (nn.Conv2d(8, 12, 3, groups=4, dilation=2), (torch.randn(2, 8, 15, 13),)),
        "transposed": (nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2), (torch.randn(2, 6, 5, 5),)),
        "products": (Products(), (torch.randn(2, 3, 5, 8), torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 4))),
        "attention": (Attention(), tuple(torch.randn(2, 4, 9, 8) for _ in range(3))),
        "encoder layer": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (torch.randn(2, 9, 16),)),
        "recurrent cells": (Cells(), (torch.randn(10, 2, 5), torch.randn(2, 7))),
    }


@pytest.mark.parametrize(
    "name",
    ["linear", "one dimension", "three dimensions", "grouped and dilated", "transposed", "products", "attention",
     "encoder layer", "recurrent cells"],
)  # fmt: skip
def test_modules_count_as_torch_counts(name: str, tmp_path: Path) -> None:
    module, inputs = modules()[name]
    expected = counted_by_torch(module, inputs)
    assert expected > 0
    assert exported(module, inputs, tmp_path / "m.onnx").costs.total == expected


def test_a_recurrent_layer_counts_like_its_cells(tmp_path: Path) -> None:
    import torch

    state = tuple(torch.randn(1, 2, 7) for _ in range(2))
    layer = exported(torch.nn.LSTM(5, 7), (torch.randn(10, 2, 5), state), tmp_path / "layer.onnx")
    assert layer.costs.macs["LSTM"] == counted_by_torch(*modules()["recurrent cells"])
