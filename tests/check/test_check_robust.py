"""Whatever bytes parse as a model, the checks answer and do not raise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper, parser

from checking import LOADED, REFUSED, subject
from sardonyx import registry
from sardonyx.check._releases import oldest_release, release
from sardonyx.check._report import CHECKS, TARGETS, codes
from sardonyx.check._subject import Examination, Subject
from sardonyx.check._text import made_readable

TEXT = """
<ir_version: 8, opset_import: ["": 17, "f": 1, "com.microsoft": 1]>
g (bool c, float[batch, 4] x) => (float[batch, 4] y) <int64[2] s = {1, -1}, float[4] b = {1, 2, 3, 4}> {
  r = Reshape(x, s)
  h = com.microsoft.Gelu(r)
  k = f.double(h)
  y = If (c) <then_branch = t () => (float[n, 4] p) { p = Add(k, b) }, else_branch = e () => (float[n, 4] q) { q = Neg(k) }>
}
<domain: "f", opset_import: ["": 17]> double (a) => (o) { o = Add(a, a) }
"""


def seed() -> bytes:
    """A model with functions, branches, foreign operators, weights of both kinds and external data."""
    model = parser.parse_model(TEXT)
    for name in ("w0", "w1"):
        model.graph.initializer.append(numpy_helper.from_array(np.zeros(400, np.float32), name))
    outside = model.graph.initializer.add(name="w2", data_type=1, dims=[4], data_location=1)
    for key, value in (("location", "w.data"), ("offset", "0"), ("length", "16")):
        outside.external_data.add(key=key, value=value)
    return model.SerializeToString()


SEED = seed()
CODES = codes()
CHECKERS, RUNTIMES = (
    [registry.load(package, name) for name in registry.names(package)] for package in (CHECKS, TARGETS)
)
changes = st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), min_size=1, max_size=6)


def answered(model: Subject) -> None:
    for plugin in (*CHECKERS, *RUNTIMES):
        for finding in plugin.findings(model):
            assert finding.code in CODES
            assert finding.message
    assert all(plugin.runs_on(model).reason for plugin in RUNTIMES)
    assert oldest_release(model).reason
    assert release(model, "1.20").reason


@given(changes, st.sampled_from([LOADED, REFUSED]))
def test_a_damaged_model_that_still_parses_is_answered(damage: list[tuple[int, int]], load: object) -> None:
    data = bytearray(SEED)
    for position, value in damage:
        data[position] = value
    try:
        proto = made_readable(onnx.ModelProto.FromString(bytes(data)))
    except DecodeError:
        return
    # onnx's own inference stays in its child: it may not survive such a model.
    made = replace(subject(proto, load=load), _examine=lambda: Examination(None, None, proto))  # type: ignore[arg-type]
    answered(made)


@pytest.mark.parametrize("load", [LOADED, REFUSED])
def test_the_sound_model_is_answered_too(load: object, tmp_path: Path) -> None:
    proto = onnx.ModelProto.FromString(SEED)
    answered(subject(proto, load=load, path=tmp_path / "m.onnx"))  # type: ignore[arg-type]
    (tmp_path / "w.data").write_bytes(b"\0" * 16)
    answered(subject(proto, load=load, path=tmp_path / "m.onnx"))  # type: ignore[arg-type]


def test_names_that_are_not_text_become_readable() -> None:
    data = parser.parse_model(TEXT).SerializeToString().replace(b"Reshape", b"Resh\xffpe")
    model = onnx.ModelProto.FromString(data)
    assert isinstance(model.graph.node[0].op_type, bytes)
    assert made_readable(model).graph.node[0].op_type == "Resh\ufffdpe"
