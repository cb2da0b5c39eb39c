"""JAX functions, Flax and Equinox modules: live and from factories."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.errors import SourceFailed
from sardonyx.model import Model
from sardonyx.signature import Signature
from sardonyx.sources import Original, Outputs, recognise

pytestmark = pytest.mark.heavy

for package in ("jax2onnx", "flax", "equinox"):
    pytest.importorskip(package)
agreement = pytest.importorskip("agreement")
models = pytest.importorskip("jax_models")

# What jax2onnx writes in a form that onnxruntime does not run.
WRONG = {"cnn": "pooling"}


def inputs(name: str) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Example values, and the axes that are to stay open."""
    signature = Signature.parse(models.INPUTS[name])
    axes = {s.name: {str(i): d for i, d in enumerate(s.shape or ()) if isinstance(d, str)} for s in signature.inputs}
    return signature.sample(sizes={"batch": 3}), axes


@pytest.mark.parametrize("name", models.INPUTS)
def test_a_callable_is_exported_or_caught(name: str, tmp_path: Path) -> None:
    example, axes = inputs(name)
    with Original(recognise(getattr(models, name)())) as original:
        (answer,) = original.predict([example])
        assert isinstance(answer, Outputs), answer
        for route in original.source.routes():
            out = tmp_path / f"{route}.onnx"
            done = original.export(route, out, example=example, **{**agreement.OPTIONS, "dynamic": axes})
            assert done.failure is None, done.failure
            found = agreement.verdict(answer, out, example, {})
            assert WRONG[name] in found if name in WRONG else found == "agrees", found


def test_names_and_open_dimensions_are_kept(tmp_path: Path) -> None:
    example, axes = inputs("attention")
    with Original(recognise(models.attention())) as original:
        assert [item["name"] for item in original.describe()["inputs"]] == ["tokens", "mask"]
        original.export("jax2onnx", tmp_path / "m.onnx", example=example, **{**agreement.OPTIONS, "dynamic": axes})
    model = Model.load(tmp_path / "m.onnx")
    assert [str(spec) for spec in model.signature.inputs] == ["tokens=float32[batch,7,8]", "mask=bool[batch,7]"]
    assert [spec.name for spec in model.signature.outputs] == ["context", "shares"]
    assert model.opset == 18


def test_answers_in_float64_show_the_rounding() -> None:
    example, _ = inputs("mlp")
    with Original(recognise(models.mlp())) as original:
        (plain,), (exact,) = original.predict([example]), original.predict([example], double=True)
    assert isinstance(plain, Outputs)
    assert isinstance(exact, Outputs)
    assert (plain.arrays[0].dtype, exact.arrays[0].dtype) == (np.float32, np.float64)
    assert 0 < np.abs(plain.arrays[0] - exact.arrays[0]).max() < 1e-5


def test_a_module_is_asked_in_inference_mode_and_left_in_training_mode() -> None:
    block = models.flax_nnx()
    example, _ = inputs("flax_nnx")
    with Original(recognise(block)) as original:
        first, second = original.predict([example, example])
    assert isinstance(first, Outputs)
    assert isinstance(second, Outputs)
    np.testing.assert_array_equal(first.arrays[0], second.arrays[0])  # dropout is off
    assert block.dropout.deterministic is False


def test_callables_are_recognised_by_what_they_use() -> None:
    import jax

    for value in (
        models.mlp(),
        jax.jit(models.mlp()),
        functools.partial(models.mlp()),
        models.equinox_mlp(),
        models.flax_nnx(),
    ):
        source = recognise(value)
        assert (source.plugin, source.form) == ("jax", "callable")


def test_a_module_without_parameters_is_told_how_to_get_them() -> None:
    with pytest.raises(Exception, match="no parameters yet") as refused, Original(recognise(models.unbound_linen())):
        pass
    assert "bind" in refused.value.hint  # type: ignore[attr-defined]


def test_a_factory_is_built_and_exported_in_its_own_process(tmp_path: Path) -> None:
    path = f"{Path(models.__file__)}:mlp"
    example, axes = inputs("mlp")
    with Original(recognise(path)) as original:
        (answer,) = original.predict([example])
        assert isinstance(answer, Outputs), answer
        done = original.export(
            "jax2onnx", tmp_path / "m.onnx", example=example, **{**agreement.OPTIONS, "dynamic": axes}
        )
    assert done.failure is None, done.failure
    assert agreement.verdict(answer, tmp_path / "m.onnx", example, {}) == "agrees"


def test_a_call_back_into_python_is_refused_in_one_line(tmp_path: Path) -> None:
    import jax

    def forward(x: Any) -> Any:
        return jax.pure_callback(np.cbrt, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    example = {"x": np.full((2,), 3.0, np.float32)}
    found = agreement.outcomes(forward, example, tmp_path, routes=("jax2onnx",))["jax2onnx"]
    assert found.startswith("refused: jax2onnx")
    assert "pure_callback" in found


def test_a_factory_that_raises_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import jax\n\ndef model():\n    return jax.numpy.ones(3).reshape(2, 2)\n")
    with pytest.raises(SourceFailed, match=r"broken\.py:4"), Original(recognise(f"{tmp_path}/broken.py:model")):
        pass
