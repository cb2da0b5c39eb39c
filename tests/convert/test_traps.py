"""No trap is handed over wrong, and none is refused though right: one trap in six, or all of them while the page is written.

SARDONYX_ALL_TRAPS=1 pytest tests/convert/test_traps.py      # all of them, about half an hour
"""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from conversions import committed_traps
from halves import split
from traps._oracle import differs, expected, feed
from traps._run import BAD, load, run
from traps._trap import CLASSES, Trap, floats

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

TRAPS = load()
SHARE = 6
# A folder for the outcomes, when the page is being written.
WRITE = os.environ.get("SARDONYX_WRITE_CONVERSIONS")
CHOSEN = TRAPS if WRITE or os.environ.get("SARDONYX_ALL_TRAPS") else TRAPS[::SHARE]
# One of each framework that is quick to convert runs in `make test`.
QUICK = ("torch", "sklearn", "boosting")
FIRST = {trap.framework: trap.name for trap in reversed(CHOSEN) if trap.framework in QUICK}.values()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trap", split(CHOSEN, *FIRST, ids=[trap.name for trap in CHOSEN]))
def test_a_trap_is_right_or_said(trap):
    found = run(trap)
    if WRITE:
        (Path(WRITE) / f"trap{TRAPS.index(trap):04}.json").write_text(json.dumps(asdict(found)))
        return
    assert found.outcome not in BAD, f"{found.outcome}: {found.difference} | {found.said}"


def test_there_are_traps_of_every_class_and_framework():
    counts = {name: sum(trap.trap_class == name for trap in TRAPS) for name in CLASSES}
    assert min(counts.values()) >= 10, counts
    assert sum(trap.framework == "torch" for trap in TRAPS) >= 90
    assert sum(trap.framework == "sklearn" for trap in TRAPS) >= 25
    assert sum(trap.framework == "boosting" for trap in TRAPS) >= 10
    assert sum(trap.framework in ("keras", "tensorflow") for trap in TRAPS) >= 25
    assert sum(trap.framework == "jax" for trap in TRAPS) >= 15
    assert len({trap.name for trap in TRAPS}) == len(TRAPS) >= 150


def test_the_page_lists_every_trap_and_none_that_got_past():
    if not WRITE:
        rows = committed_traps()
        assert set(rows) == {(trap.trap_class, trap.name) for trap in TRAPS}
        assert not [name for (_, name), cells in rows.items() if cells[-1] in BAD]


def test_the_oracle_tells_a_wrong_file_from_a_right_one(tmp_path):
    """The oracle's own seeded fault: a file that doubles is right for a model that doubles, and wrong for one that triples."""
    import onnx
    import onnxruntime
    import torch

    from traps._oracle import differences

    class Times(torch.nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return x * self.factor

    text = """<ir_version: 8, opset_import: ["" : 18]>
    double (float[n, 3] x) => (float[n, 3] y) { y = Add(x, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "double.onnx")

    def trap(factor):
        return Trap(
            "times",
            CLASSES[0],
            "torch",
            lambda: Times(factor),
            ("x=float32[n,3]",),
            lambda _: [{"x": floats(2, 3)}],
            "right",
            "",
        )

    assert differences(trap(2), expected(trap(2)), tmp_path / "double.onnx") == []
    assert len(differences(trap(3), expected(trap(3)), tmp_path / "double.onnx")) == 1
    session = onnxruntime.InferenceSession(str(tmp_path / "double.onnx"))
    assert feed(session, {"x": np.ones((1, 3))})["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (np.float32([1, np.nan]), np.float32([1, np.nan]), True),
        (np.float32([1, np.nan]), np.float32([1, 0]), False),
        (np.float32([1, 2]), np.float32([1, 2.0001]), True),
        (np.float32([1, 2]), np.float32([1, 2.1]), False),
        (np.float32([np.inf]), np.float32([3e38]), False),
        (np.int64([7]), np.int32([7]), False),
        (np.int64([7]), np.int64([8]), False),
        (np.zeros((2, 1)), np.zeros(2), False),
        (np.array(["a", "b"]), np.array(["a", "b"], dtype=object), True),
        (np.array(["a", "b"]), np.array(["a", "c"], dtype=object), False),
    ],
)
def test_two_answers_are_told_apart(one, two, same):
    assert (differs(one, two, rtol=1e-3, atol=1e-5, exact=True) == "") is same
