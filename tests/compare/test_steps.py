"""Casts to integers and other steps: rounding decides the side of a few elements, and a fault that of many."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from sardonyx.run.session import Session

pytestmark = pytest.mark.heavy
torch = pytest.importorskip("torch")
SPEC = ["x=float32[n,3,24,24]"]


class Pixels(torch.nn.Module):
    """A picture as bytes, as an image network ends."""

    def __init__(self, ending):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.ending = torch.nn.Conv2d(3, 3, 3, padding=1), ending

    def forward(self, x):
        scaled = torch.sigmoid(self.layer(x)) * 255
        return self.ending(scaled).to(torch.uint8)


def cut(scaled):
    return scaled.clamp(0, 255)


def rounded(scaled):
    return torch.round(scaled.clamp(0, 255))


@pytest.mark.rest
@pytest.mark.parametrize("ending", [cut, rounded])
def test_bytes_made_of_floats_are_not_refused(tmp_path, ending):
    report = sardonyx.convert(Pixels(ending), tmp_path / "m.onnx", inputs=SPEC, route="trace")
    assert report.verdict == "agrees"
    assert Session(tmp_path / "m.onnx").signature.outputs[0].dtype == "uint8"


@pytest.mark.rest
def test_bytes_that_are_cut_instead_of_rounded_are_found(tmp_path):
    sardonyx.convert(Pixels(cut), tmp_path / "cut.onnx", inputs=SPEC, route="trace")
    report = sardonyx.compare(Pixels(rounded), tmp_path / "cut.onnx")
    assert report.verdict == "mismatch"
    assert sardonyx.compare(Pixels(cut), tmp_path / "cut.onnx").verdict in ("equal", "rounding")


class Rounds(torch.nn.Module):
    def forward(self, x):
        return torch.round(x).to(torch.int64)


class RoundsUp(torch.nn.Module):
    def forward(self, x):
        return torch.floor(x + 0.5).to(torch.int64)


@pytest.mark.rest
def test_halves_that_are_rounded_up_are_found(tmp_path):
    """They differ only where an input lies on the step itself, which no rounding put there."""
    sardonyx.convert(RoundsUp(), tmp_path / "up.onnx", inputs=["x=float32[n,3]"], route="trace")
    assert sardonyx.compare(Rounds(), tmp_path / "up.onnx").verdict == "mismatch"


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    module = torch.nn.Linear(3, 2)
    torch.manual_seed(3)
    np.random.seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    sardonyx.convert(module, tmp_path / "m.onnx", inputs=["input=float32[n,3]"], route="trace")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()
