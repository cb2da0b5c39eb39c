"""The forward pass of a training graph, computed in another way with the same answers."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx import Model
from sardonyx.run.session import Session, Settings
from sardonyx.training.lowering import lowered

SETTINGS = Settings(threads=1)


def _model(*, size: int = 3, attributes: str = "pads = [1, 1, 1, 1]", bias: bool = True) -> Model:
    return Model.from_text(f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[n, 4, {size}, {size}] x, float[16, 4, 3, 3] w, float[16] b) => (float[n, 16, p, q] y, float[n, 16, p, q] z) {{
        y = Conv<{attributes}>(x, w{", b" if bias else ""})
        z = Relu(y)
    }}""")


def _answers(model: Model, size: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    feeds = {"x": (5, 4, size, size), "w": (16, 4, 3, 3), "b": (16,)}
    names = [value.name for value in model.ir.graph.inputs]
    return Session(model, SETTINGS).run_fitted(
        {name: random.normal(size=shape).astype(np.float32) for name, shape in feeds.items() if name in names}
    )


def _operators(model: Model) -> list[str]:
    return [node.op_type for node in model.ir.graph]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "attributes", ["pads = [1, 1, 1, 1]", 'auto_pad = "SAME_UPPER"', "pads = [2, 2, 2, 2], dilations = [2, 2]"]
)
def test_a_small_picture_of_many_channels_is_convolved_as_a_strip(attributes: str, bias: bool) -> None:
    plain, strip = _model(attributes=attributes, bias=bias), lowered(_model(attributes=attributes, bias=bias))
    assert "Transpose" in _operators(strip)
    expected, found = _answers(plain, 3), _answers(strip, 3)
    assert list(found) == ["y", "z"]  # an output keeps its name
    for name, value in expected.items():
        assert np.allclose(found[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "attributes"),
    [(6, "pads = [1, 1, 1, 1]"), (3, "pads = [1, 1, 1, 1], strides = [2, 2]"), (3, "pads = [0, 0, 0, 0]")],
)
def test_what_does_not_pay_stays(size: int, attributes: str) -> None:
    model = lowered(_model(size=size, attributes=attributes))
    assert _operators(model) == ["Conv", "Relu"]
