"""JAX functions, Flax and Equinox modules: live and from factories."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halves import split
from sardonyx.errors import SourceFailed
from sardonyx.model import Model
from sardonyx.signature import Signature
from sardonyx.sources import Failure, Original, Outputs, recognise

pytestmark = pytest.mark.heavy

for package in ("jax2onnx", "flax", "equinox"):
    pytest.importorskip(package)
agreement = pytest.importorskip("agreement")
models = pytest.importorskip("jax_models")
unsteady = pytest.importorskip("unsteady_jax")

# What jax2onnx writes in a form that onnxruntime does not run.
WRONG = {"cnn": "pooling"}


def inputs(name: str) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Example values, and the axes that are to stay open."""
    signature = Signature.parse(models.INPUTS[name])
    axes = {s.name: {str(i): d for i, d in enumerate(s.shape or ()) if isinstance(d, str)} for s in signature.inputs}
    return signature.sample(sizes={"batch": 3}), axes


@pytest.mark.parametrize("name", split(models.INPUTS, "mlp", "cnn"))
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


@pytest.mark.rest
@pytest.mark.parametrize("name", models.INPUTS)
def test_every_function_answers_in_float64(name: str) -> None:
    example, _ = inputs(name)
    with Original(recognise(getattr(models, name)())) as original:
        (plain,), (exact,) = original.predict([example]), original.predict([example], double=True)
    assert isinstance(plain, Outputs), plain
    assert isinstance(exact, Outputs), exact
    for narrow, wide in zip(plain.arrays, exact.arrays, strict=True):
        assert wide.dtype == np.float64
        np.testing.assert_allclose(narrow, wide, rtol=1e-4, atol=1e-6)


@pytest.mark.rest
def test_steps_of_every_kind_answer_in_float64() -> None:
    example = {
        "x": np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32),
        "i": np.array([1, 7, 42], np.int32),
    }
    with Original(recognise(unsteady.everything)) as original:
        (plain,), (exact,) = original.predict([example]), original.predict([example], double=True)
    assert isinstance(plain, Outputs), plain
    assert isinstance(exact, Outputs), exact
    for name, narrow, wide in zip(plain.names, plain.arrays, exact.arrays, strict=True):
        assert wide.dtype == (np.float64 if narrow.dtype.kind == "f" else narrow.dtype), name
        np.testing.assert_allclose(narrow, wide, rtol=1e-2 if name == "half" else 1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", unsteady.UNSTEADY)
def test_what_is_random_or_stateful_is_told_and_left_as_it_was(name: str) -> None:
    kind, changes = unsteady.UNSTEADY[name]
    example = {"x": np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)}
    drawn = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    with Original(recognise(getattr(unsteady, name)())) as original:
        (first,) = original.predict([example])
        found = original.steadiness(example)
        again = original.predict([example, example])
    assert isinstance(first, Outputs), first
    assert found.random == (first.names if kind == "random" else ())
    assert found.state == (first.names if kind == "state" else ())
    assert found.changes == changes
    if name != "called_back":  # what is drawn outside of the trace is drawn anew
        for answer in again:
            np.testing.assert_array_equal(answer.arrays[0], first.arrays[0])  # type: ignore[union-attr]
        np.testing.assert_array_equal(np.random.get_state()[1], drawn)  # type: ignore[index]


def test_a_live_callable_is_left_as_it_was() -> None:
    held = unsteady.Running()
    with Original(recognise(held)) as original:
        original.predict([{"x": np.ones((2, 4), np.float32)}])
        original.steadiness({"x": np.ones((2, 4), np.float32)})
    np.testing.assert_array_equal(held.mean, 0.0)


def test_code_that_looks_at_values_answers_without_a_trace_and_is_watched(tmp_path: Path) -> None:
    low, high = {"x": np.zeros((2, 4), np.float32)}, {"x": np.ones((2, 4), np.float32)}
    with Original(recognise(unsteady.decides)) as original:
        first, second = original.explore([low, high])
        branches, _ = original.branches()
        refused = original.export("jax2onnx", tmp_path / "m.onnx", example=low, **{**agreement.OPTIONS, "dynamic": {}})
    assert isinstance(first.answer, Outputs)
    assert isinstance(second.answer, Outputs)
    np.testing.assert_allclose(second.answer.arrays[0], np.sin(high["x"]), rtol=1e-6)
    assert [(branch.text, branch.taken) for branch in branches] == [("if x.sum() > 3:", (True, True))]
    assert refused.failure is not None
    assert "decides on a value; use jax.numpy.where" in refused.failure.reason
    assert refused.failure.where.endswith(f"unsteady_jax.py:{branches[0].line}")


def test_an_input_that_is_an_output_and_an_output_that_is_two_are_exported(tmp_path: Path) -> None:
    example = {"b": np.ones((3, 2), np.float32), "a": np.arange(6, dtype=np.float32).reshape(3, 2)}
    found = agreement.outcomes(unsteady.passes_on, example, tmp_path, routes=("jax2onnx",))
    assert found == {"jax2onnx": "agrees"}


def test_a_loop_that_does_not_end_can_be_ended() -> None:
    with Original(recognise(unsteady.halves)) as original:
        (small,) = original.explore([{"x": np.full((2, 4), 3, np.float32)}], limit=60)
        (endless,) = original.explore([{"x": np.full((2, 4), np.inf, np.float32)}], limit=2)
    assert isinstance(small.answer, Outputs)
    np.testing.assert_array_equal(small.answer.arrays[0], 0.375)
    assert isinstance(endless.answer, Failure)
    assert "no answer within 2 s" in endless.answer.reason


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
