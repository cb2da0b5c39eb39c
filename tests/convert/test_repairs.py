"""Each repair mends the fault that it is for, leaves the given model alone, and stays away where the fault is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx.convert import repairs
from sardonyx.model import Model
from sardonyx.run.session import Session

X = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
SCORES = """<ir_version: 8, opset_import: ["" : 18]>
g (float[batch,2] X) => (float[batch,2] prediction) { prediction = Neg(X) }"""


def repaired(model: Model, description: dict[str, Any], name: str) -> Model:
    found = dict(repairs.candidates(model, description))
    assert name in found, f"offered: {list(found)}"
    return found[name]


def answer(model: Model, **inputs: np.ndarray[Any, Any]) -> Any:
    return next(iter(Session(model)(inputs or {"X": X}).values()))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("sigmoid", sigmoid(-X)),
        ("exp", np.exp(-X)),
        ("softplus", np.log1p(np.exp(-X))),
        ("softmax", np.exp(-X) / np.exp(-X).sum(1, keepdims=True)),
        ("argmax", np.exp(-X) / np.exp(-X).sum(1, keepdims=True)),
    ],
)
def test_a_missing_link_is_appended_under_the_same_output_name(link: str, expected: Any) -> None:
    model = Model.from_text(SCORES)
    mended = repaired(model, {"link": link}, "missing link function appended")
    assert [spec.name for spec in mended.signature.outputs] == ["prediction"]
    np.testing.assert_allclose(answer(mended), expected, rtol=1e-6)


def test_the_given_model_is_left_alone() -> None:
    model = Model.from_text(SCORES)
    repaired(model, {"link": "exp"}, "missing link function appended")
    np.testing.assert_array_equal(answer(model), -X)


def test_a_link_that_is_there_is_not_appended_again() -> None:
    model = Model.from_text(SCORES.replace("Neg", "Sigmoid"))
    assert list(repairs.candidates(model, {"link": "sigmoid"})) == []


def test_a_model_without_a_known_fault_gets_no_candidates() -> None:
    assert list(repairs.candidates(Model.from_text(SCORES), {"link": "identity"})) == []


def test_a_list_of_maps_becomes_the_tensor_inside() -> None:
    model = Model.from_text("""<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>
    g (float[batch,2] X) => (seq(map(int64, float)) probabilities) {
        inner = Neg(X)
        probabilities = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (inner)
    }""")
    mended = repaired(model, {}, "list of maps unpacked")
    assert [node.op_type for node in mended.ir.graph] == ["Neg"]
    np.testing.assert_array_equal(answer(mended), -X)


FIXED = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,2] X) => (float[2,1,2] Y) <int64[3] shape = {2, 1, 2}> { h = Neg(X) Y = Reshape(h, shape) }"""


def test_a_fixed_batch_is_opened_and_its_reshape_freed() -> None:
    description = {"dynamic": {"X": {"0": "batch"}}}
    mended = repaired(Model.from_text(FIXED), description, "fixed dimension opened")
    assert mended.signature.inputs[0].shape == ("batch", 2)
    assert answer(mended, X=np.zeros((5, 2), np.float32)).shape == (5, 1, 2)
    assert list(repairs.candidates(mended, description)) == []


def test_a_dimension_that_nobody_asked_to_be_open_stays_fixed() -> None:
    assert list(repairs.candidates(Model.from_text(FIXED), {"dynamic": {}})) == []


def test_the_locale_of_a_normalizer_is_replaced_and_still_lowers() -> None:
    model = Model.from_text("""<ir_version: 8, opset_import: ["" : 18]>
    g (string[n] X) => (string[m] Y) { Y = StringNormalizer <case_change_action = "LOWER"> (X) }""")
    mended = repaired(model, {}, "locale replaced")
    assert answer(mended, X=np.array(["Red", "ÉTÉ"], dtype=object)).tolist() == ["red", "été"]
    assert list(repairs.candidates(mended, {})) == []


def test_columns_that_were_laid_in_one_are_kept() -> None:
    model = Model.from_text("""<ir_version: 8, opset_import: ["" : 18]>
    g (float[batch,2] X) => (float[batch,1] Y) <int64[2] shape = {-1, 1}> {
        h = Neg(X) r = Reshape(h, shape) Y = Identity(r)
    }""")
    description = {"outputs": [{"name": "Y", "shape": ["batch", 2]}]}
    np.testing.assert_array_equal(answer(repaired(model, description, "columns kept")), -X)


TREES = """<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>
g (float[batch,2] X) => (float[batch,1] prediction) {
    prediction = ai.onnx.ml.TreeEnsembleRegressor <
        n_targets = 1, nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0],
        nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values = [1.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0],
        nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],
        target_weights = [0.25, 0.75]> (X)
}"""


def test_a_lost_starting_score_is_set() -> None:
    mended = repaired(Model.from_text(TREES), {"base": [10.0]}, "starting score set")
    np.testing.assert_allclose(answer(mended), [[10.25], [10.75]])
    assert list(repairs.candidates(mended, {"base": [10.0]})) == []


def test_two_faults_are_mended_together() -> None:
    description = {"base": [1.0], "link": "exp"}
    mended = repaired(Model.from_text(TREES), description, "starting score set, missing link function appended")
    np.testing.assert_allclose(answer(mended), np.exp([[1.25], [1.75]]), rtol=1e-6)


def test_a_softmax_over_classes_becomes_a_sigmoid_for_each() -> None:
    model = Model.from_text("""<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>
    g (float[batch,2] X) => (int64[batch] label, float[batch,3] probabilities) {
        label, probabilities = ai.onnx.ml.TreeEnsembleClassifier <
            nodes_treeids = [0], nodes_nodeids = [0], nodes_featureids = [0], nodes_modes = ["LEAF"], nodes_values = [0.0],
            nodes_truenodeids = [0], nodes_falsenodeids = [0], class_treeids = [0, 0, 0], class_nodeids = [0, 0, 0],
            class_ids = [0, 1, 2], class_weights = [0.5, -1.0, 2.0], classlabels_int64s = [0, 1, 2],
            post_transform = "SOFTMAX"> (X)
    }""")
    mended = repaired(model, {"link": "sigmoid"}, "sigmoid for every class")
    probabilities = Session(mended)({"X": X})["probabilities"]
    np.testing.assert_allclose(probabilities, np.tile(sigmoid(np.array([0.5, -1.0, 2.0])), (2, 1)), rtol=1e-6)


def test_every_repair_says_what_it_replaces() -> None:
    for repair in repairs.REPAIRS:
        assert (repair.apply.__doc__ or "").startswith("Replaces "), repair.name
