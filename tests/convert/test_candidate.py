import numpy as np
import pytest

from sardonyx.convert.candidate import fixed_dimensions, prepare
from sardonyx.convert.inputs import settle
from sardonyx.convert.training import in_evaluation
from sardonyx.errors import InputError
from sardonyx.model import Model
from sardonyx.run.session import Session

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
OPEN = f"{HEAD} g (float[s0,4] a) => (float[s0,4] b) {{ b = Relu(a) }}"
FIXED = f"{HEAD} g (float[2,4] x) => (float[2,4] y) {{ y = Relu(x) }}"
ASKED = settle(["x=float32[batch,4]"], None, {})
TRAINING = f"""{HEAD} g (float[n,2] x) => (float[n,2] y)
    <float[2] one = {{1.0, 1.0}}, float[2] zero = {{0.0, 0.0}}, float ratio = {{0.5}}, bool on = {{1}}> {{
    scaled, mean, variance = BatchNormalization <training_mode = 1> (x, one, zero, zero, one)
    y = Dropout(scaled, ratio, on)
}}"""


def saved(text, tmp_path):
    return Model.from_text(text).save(tmp_path / "m.onnx")


def test_inputs_outputs_and_dimensions_get_the_names_that_were_asked_for(tmp_path):
    model = prepare(saved(OPEN, tmp_path), ASKED, opset=None, output_names=["score"])
    assert str(model.signature.inputs[0]) == "x=float32[batch,4]"
    assert str(model.signature.outputs[0]) == "score=float32[batch,4]"


def test_a_dimension_that_came_out_fixed_is_found(tmp_path):
    model = prepare(saved(FIXED, tmp_path), ASKED, opset=None, output_names=[])
    assert fixed_dimensions(model, ASKED) == ["'batch' of x came out fixed at 2"]


def test_an_open_dimension_is_not_reported(tmp_path):
    assert fixed_dimensions(prepare(saved(OPEN, tmp_path), ASKED, opset=None, output_names=[]), ASKED) == []


def test_an_older_opset_is_upgraded_and_a_newer_one_refused(tmp_path):
    path = saved(OPEN, tmp_path)
    assert prepare(path, ASKED, opset=20, output_names=[]).opset == 20
    with pytest.raises(InputError, match="came out at opset 17, above the 13"):
        prepare(path, ASKED, opset=13, output_names=[])


def test_names_that_do_not_fit_the_number_of_outputs_are_refused(tmp_path):
    with pytest.raises(InputError, match="1 outputs"):
        prepare(saved(OPEN, tmp_path), ASKED, opset=None, output_names=["a", "b"])


def test_a_training_export_answers_as_in_evaluation():
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    (y,) = Session(in_evaluation(Model.from_text(TRAINING)))({"x": x}).values()
    np.testing.assert_allclose(y, x, atol=1e-4)  # statistics of mean 0 and variance 1, and nothing dropped
