"""Chance and state that show only on some inputs, or only after many calls."""

from __future__ import annotations

import collections

import pytest

import sardonyx

pytestmark = pytest.mark.heavy
torch = pytest.importorskip("torch")


class FillsByChance(torch.nn.Module):
    def forward(self, x):
        if torch.isnan(x).any():
            x = torch.where(torch.isnan(x), torch.randn_like(x), x)
        return x * 2


class ShufflesMany(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] > 20:
            x = x[torch.randperm(x.shape[0])]
        return x.cumsum(0)


class WarmsUp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * (0.5 if self.calls < 1000 else 1.0)


class KeepsPeaks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peaks", torch.zeros(()))

    def forward(self, x):
        if x.max() > 30:
            self.peaks += 1
        return x + self.peaks


class KeepsTheFirst(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = None

    def forward(self, x):
        if self.first is None:
            self.first = x.mean(0, keepdim=True)
        return x - self.first


class KeepsTheLargest(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.ones(()))

    def forward(self, x):
        self.largest = torch.maximum(self.largest, x.abs().max())
        return x / self.largest


SEEN = {}


class KeepsOutside(torch.nn.Module):
    def forward(self, x):
        if "mean" not in SEEN:
            SEEN["mean"] = x.mean(0, keepdim=True)
        return x - SEEN["mean"]


class MeansOfFive(torch.nn.Module):
    """Of equal inputs, the mean over the last five is the answer itself."""

    def __init__(self):
        super().__init__()
        self._recent = collections.deque(maxlen=5)

    def forward(self, x):
        self._recent.append(x.mean(0, keepdim=True))
        return x - (torch.stack(tuple(self._recent)).mean(0) if len(self._recent) == 5 else 0.0)


class KeepsInAnObject(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = Counter()

    def forward(self, x):
        self.counter.calls += 1
        return x * 2 if self.counter.calls > 40 else x


class Counter:
    """A plain object, which no module knows of."""

    calls = 0


class BuildsTables(torch.nn.Module):
    """Keeps a table that it builds when it is first asked, and answers alike with and without it."""

    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x):
        if "positions" not in self.tables:
            self.tables["positions"] = torch.arange(4) / 8
        return x + self.tables["positions"]


class Logs(torch.nn.Module):
    """Keeps what no answer depends on."""

    def __init__(self):
        super().__init__()
        self.sizes, self.layer = [], torch.nn.Linear(4, 2)

    def forward(self, x):
        self.sizes.append(len(x))
        return self.layer(x)


def converted(module, folder):
    return sardonyx.convert(module, folder / "m.onnx", inputs=["x=float32[batch,4]"], route="trace")


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (FillsByChance, "random-original", "'one NaN'"),
        (ShufflesMany, "random-original", "'batch = "),
        (WarmsUp, "stateful-original", "changes calls"),
        (KeepsPeaks, "stateful-original", "changes peaks"),
        (KeepsTheFirst, "stateful-original", "a later call"),
        (KeepsTheLargest, "stateful-original", "changes largest"),
        (KeepsOutside, "stateful-original", "a later call"),
        (MeansOfFive, "stateful-original", "changes _recent"),
        (KeepsInAnObject, "stateful-original", "changes counter.calls"),
    ],
)
def test_it_is_refused_and_named(tmp_path, kind, code, words):
    report = converted(kind(), tmp_path)
    assert report.verdict == "no-route-agrees"
    (finding,) = report["findings"]
    assert finding["code"] == code
    assert words in finding["message"]
    assert not (tmp_path / "m.onnx").exists()
    assert SEEN == {}, "what the model keeps outside of itself is put back"


def test_what_a_call_changes_is_said_where_no_answer_depends_on_it(tmp_path):
    report = converted(Logs(), tmp_path)
    assert report.verdict == "agrees"
    (finding,) = [item for item in report["findings"] if item["code"] == "stateful-original"]
    assert finding["where"] == "sizes"


def test_a_table_that_is_built_at_the_first_call_is_no_state(tmp_path):
    report = converted(BuildsTables(), tmp_path)
    assert (report.verdict, report["findings"]) == ("agrees", [])


def test_parts_left_in_training_mode_are_said(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).eval()
    module[1].train()
    report = sardonyx.convert(module, tmp_path / "m.onnx", inputs=["input=float32[batch,4]"], route="trace")
    assert [item["where"] for item in report["findings"]] == ["1"]
    assert report["findings"][0]["code"] == "training-parts"
    assert module[1].training, "the user's module is left as it was"
