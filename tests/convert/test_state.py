"""--state: what a call changes in a PyTorch module goes in and comes out of the export."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import sardonyx
from sardonyx.errors import SourceFailed, UsageError
from sardonyx.run.session import Session

pytestmark = pytest.mark.heavy
torch = pytest.importorskip("torch")


class Running(torch.nn.Module):
    """A counter in a buffer that is changed in place, and a mean that is bound anew."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(3))
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.layer(x - self.mean) * self.count


class Remembers(torch.nn.Module):
    """A part with a state, and a plain tensor of its own."""

    def __init__(self):
        super().__init__()
        self.part, self.last = Running(), torch.zeros(1, 2)

    def forward(self, x):
        found = self.part(x)
        self.last = 0.5 * self.last + found[:1]
        return found + self.last


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_calls_in_a_row_are_those_of_the_original(tmp_path):
    torch.manual_seed(0)
    module = Remembers().eval()
    report = sardonyx.convert(module, tmp_path / "m.onnx", inputs=["x=float32[batch,3]"], state=True)
    assert report.verdict == "agrees"
    assert [spec["name"] for spec in report["inputs"]] == ["x", "state_part_count", "state_part_mean", "state_last"]
    assert int(module.part.count) == 0, "the user's module is left as it was"
    session, ours = Session(tmp_path / "m.onnx"), copy.deepcopy(module)
    state = {"state_part_count": np.int64(0), "state_part_mean": np.zeros(3, "f"), "state_last": np.zeros((1, 2), "f")}
    random = np.random.default_rng(0)
    for _ in range(4):
        x = random.standard_normal((5, 3)).astype(np.float32)
        answer = session({"x": x, **{name: np.asarray(value) for name, value in state.items()}})
        with torch.no_grad():
            expected = ours(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(answer["output"], expected, rtol=1e-5, atol=1e-5)
        state = {name: answer[name.replace("state_", "next_", 1)] for name in state}


def test_a_state_that_is_no_tensor_is_named_with_the_cure(tmp_path):
    with pytest.raises(SourceFailed, match="calls, which a call changes, is a Python int") as caught:
        sardonyx.convert(Counts(), tmp_path / "m.onnx", inputs=["x=float32[batch,3]"], state=True)
    assert "register_buffer('calls'" in str(caught.value) + (caught.value.hint or "")


def test_a_model_without_a_state_is_converted_as_it_is(tmp_path):
    report = sardonyx.convert(
        torch.nn.Linear(3, 2), tmp_path / "m.onnx", inputs=["input=float32[batch,3]"], state=True, route="trace"
    )
    assert [spec["name"] for spec in report["inputs"]] == ["input"]


def test_other_frameworks_say_that_they_cannot(tmp_path):
    numpy = pytest.importorskip("jax.numpy")
    held = [0.0]

    def step(x):
        held[0] += 1.0
        return numpy.add(x, held[0])

    with pytest.raises(UsageError, match="cannot be made an input"):
        sardonyx.convert(step, tmp_path / "m.onnx", inputs=["x=float32[batch,3]"], state=True)
