"""onnxruntime's calls end with the deadline of their block, and a session goes on after one that was ended."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings

# Counts to `times`, one step after the other.
COUNTING = """<ir_version: 8, opset_import: ["": 18]> g (int64 times) => (float total)
<bool go = {1}, float zero = {0}, float one = {1}> {
  total = Loop(times, go, zero) <body = count (int64 i, bool c, float before) => (bool again, float after) {
    again = Identity(c) after = Add(before, one)
  }>
}"""
FOREVER, FEW = np.array(1 << 60), np.array(3)


def test_a_run_that_would_take_for_ever_ends_with_its_deadline() -> None:
    session = Session(Model.from_text(COUNTING), Settings(threads=1))
    with pytest.raises(OutOfTime), Deadline(0.1).enforced():
        session({"times": FOREVER})
    assert session({"times": FEW})["total"] == 3
    with Deadline(60).enforced():
        assert session({"times": FEW})["total"] == 3


def test_nothing_is_loaded_or_run_when_the_time_is_over() -> None:
    session, late = Session(Model.from_text(COUNTING)), Deadline(0.05)
    with pytest.raises(OutOfTime), late.enforced():
        session({"times": FOREVER})
    for work in (lambda: Session(Model.from_text(COUNTING)), lambda: session({"times": FEW})):
        with pytest.raises(OutOfTime), late.enforced():
            work()
