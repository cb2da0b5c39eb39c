"""Whole networks, exported from PyTorch: the gradient of every parameter is PyTorch's."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from sardonyx.gradient.engine import blockers, differentiate
from sardonyx.model import Model

pytestmark = pytest.mark.heavy


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(self.embed(x))[0].mean(1))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
        self.head = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(self.embed(x))[:, 0])


def _images() -> Any:
    return torch.randn(4, 3, 8, 8)


def _words() -> Any:
    return torch.randint(0, 11, (4, 7))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "dense": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 3)), _images),
    "convolutional": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8),
            nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
        ),
        _images,
    ),
    # Large pictures, channels that a normalisation scales before a convolution, and pictures smaller than their channels.
    "normalised": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 9, 3, stride=2, padding=1),
            nn.BatchNorm2d(9), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(9, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12),
            nn.ReLU(), nn.Conv2d(12, 10, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10, 3),
        ),
        lambda: torch.randn(4, 3, 24, 24),
    ),
    "recurrent": (Recurrent, _words),
    "transformer": (Transformer, _words),
}  # fmt: skip


def _exported(network: nn.Module, x: Any) -> Model:
    file = io.BytesIO()
    names = {"input_names": ["x"], "output_names": ["scores"], "dynamic_axes": {"x": {0: "batch"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False, "opset_version": 17}
        torch.onnx.export(network, (x,), file, dynamo=False, **names, **settings)
    return Model.from_proto(onnx.load_from_string(file.getvalue()))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradients_of_all_parameters_are_those_of_pytorch(name: str) -> None:
    torch.manual_seed(3)
    make, data = NETWORKS[name]
    network, x = make(), data()
    model = _exported(network, x)
    parameters = {key: value for key, value in network.named_parameters() if key in model.ir.graph.initializers}
    assert len(parameters) >= len(list(network.parameters())) // 2
    assert blockers(model, wrt=list(parameters)) == []
    gradient = differentiate(model, wrt=list(parameters), output_gradients=["scores"])
    seed = torch.randn(x.shape[0], 3)
    network(x).backward(seed)
    session = ort.InferenceSession(gradient.to_proto().SerializeToString(), providers=["CPUExecutionProvider"])
    names = [f"{key}_grad" for key in parameters]
    found = session.run(names, {"x": x.numpy(), "scores_grad": seed.numpy()})
    for (key, parameter), g in zip(parameters.items(), found, strict=True):
        expected = parameter.grad.numpy()
        np.testing.assert_allclose(g, expected, atol=2e-5 * max(1.0, np.abs(expected).max()), err_msg=key)
