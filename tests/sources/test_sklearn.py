"""scikit-learn: the whole zoo, live and from files, and the borders of the exported graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.errors import SourceFailed, Untrusted
from sardonyx.model import Model
from sardonyx.sources import Failure, Original, Outputs, recognise

pytestmark = pytest.mark.heavy

agreement = pytest.importorskip("agreement")
zoo = pytest.importorskip("sklearn_zoo")

NO_CONVERTER = "has no converter for"
# What skl2onnx declines, and words of the one line that says so.
REFUSED: dict[str, str] = {
    "NearestCentroid": NO_CONVERTER, "SplineTransformer": NO_CONVERTER, "IterativeImputer": NO_CONVERTER,
    "MissingIndicator": NO_CONVERTER, "FastICA": NO_CONVERTER, "NMF": NO_CONVERTER, "FactorAnalysis": NO_CONVERTER,
    "Nystroem": NO_CONVERTER, "Birch": NO_CONVERTER, "OutputCodeClassifier": NO_CONVERTER, "ClassifierChain": NO_CONVERTER,
    "RegressorChain": NO_CONVERTER, "TransformedTargetRegressor": NO_CONVERTER, "DummyClassifier": NO_CONVERTER,
    "DummyRegressor": NO_CONVERTER, "IsotonicRegression": NO_CONVERTER,
    "HashingVectorizer": "(step hashingvectorizer)",
    "GaussianProcessClassifier": "binary classification", "TargetEncoder of three classes": "binary classification",
}  # fmt: skip
# What skl2onnx writes without a word and gets wrong, or writes in a form that does not run.
WRONG: dict[str, str] = {
    "KNeighbors by distance": "differs in", "RadiusNeighborsClassifier": "out of range",
    "MLPRegressor of two targets": "shape", "GaussianProcessClassifier binary": "Solve", "KNNImputer": "is off by",
}  # fmt: skip


def test_the_zoo_is_wide() -> None:
    assert len(zoo.ZOO) >= 60
    assert set(REFUSED) | set(WRONG) <= set(zoo.ZOO)


@pytest.mark.parametrize("name", zoo.ZOO)
def test_an_estimator_is_exported_refused_or_caught(name: str, tmp_path: Path) -> None:
    found = agreement.outcomes(zoo.fitted(name), zoo.example(name), tmp_path)
    if name in REFUSED:
        assert all(text.startswith("refused") and REFUSED[name] in text for text in found.values()), found
    elif name in WRONG:
        assert WRONG[name] in found["skl2onnx"], found
    else:
        assert "agrees" in found.values(), found


def test_a_refusal_is_one_readable_line(tmp_path: Path) -> None:
    found = agreement.outcomes(zoo.fitted("HashingVectorizer"), zoo.example("HashingVectorizer"), tmp_path)
    assert found["skl2onnx"].startswith(
        "refused: skl2onnx has no converter for HashingVectorizer (step hashingvectorizer)"
    )
    assert "\n" not in found["skl2onnx"]


def test_an_estimator_is_described() -> None:
    with Original(recognise(zoo.fitted("RandomForestClassifier"))) as original:
        said = original.describe()
    floats = ["float32", "float64"]
    assert said["inputs"] == [{"name": "X", "dtype": "float32", "shape": ["batch", 13], "dtypes": floats}]
    assert said["outputs"] == [{"name": "label", "shape": ["batch"]}, {"name": "probabilities", "shape": ["batch", 3]}]
    assert said["kind"] == "classifier"
    assert said["decided_by"] == {"label": "probabilities"}
    assert said["allow_nan"] is True
    forest = zoo.fitted("RandomForestClassifier")
    thresholds = {float(t) for tree in forest.estimators_ for t in tree.tree_.threshold}
    assert len(said["landmarks"]["X"]) == 13
    assert {value for values in said["landmarks"]["X"] for value in values} <= thresholds


@pytest.mark.parametrize(
    ("name", "allowed"), [("LogisticRegression", False), ("Pipeline", True), ("StandardScaler", True), ("SVC", False)]
)
def test_missing_values_are_allowed_where_the_whole_pipeline_takes_them(name: str, allowed: bool) -> None:
    with Original(recognise(zoo.fitted(name))) as original:
        assert original.describe()["allow_nan"] is allowed


def test_a_frame_has_one_input_per_column() -> None:
    with Original(recognise(zoo.fitted("ColumnTransformer of a frame"))) as original:
        found = {item["name"]: item["dtype"] for item in original.describe()["inputs"]}
    assert found == {
        "alcohol": "float32", "malic_acid": "float32", "ash": "float32", "colour": "string", "cellar": "string",
    }  # fmt: skip


def export(model: Any, folder: Path, *, route: str = "skl2onnx", example: Any = None, **options: Any) -> Model:
    with Original(recognise(model)) as original:
        settings = {"dynamic": agreement.dynamic(example), **agreement.OPTIONS, **options}
        done = original.export(route, folder / "model.onnx", example=example, **settings)
    assert done.failure is None, done.failure
    return Model.load(folder / "model.onnx")


@pytest.mark.parametrize("route", ["skl2onnx", "skl2onnx-double"])
def test_both_routes_take_and_give_what_was_asked(route: str, tmp_path: Path) -> None:
    example = zoo.example("LogisticRegression")
    model = export(zoo.fitted("LogisticRegression"), tmp_path, route=route, example=example)
    assert [str(spec) for spec in model.signature.inputs] == ["X=float32[batch,13]"]
    assert [str(spec) for spec in model.signature.outputs] == ["label=int64[batch]", "probabilities=float32[batch,3]"]
    assert model.opset == 18


def test_float64_inputs_stay_float64(tmp_path: Path) -> None:
    example = {"X": zoo.example("Ridge")["X"].astype(np.float64)}
    model = export(zoo.fitted("Ridge"), tmp_path, route="skl2onnx-double", example=example)
    assert [spec.dtype for spec in (*model.signature.inputs, *model.signature.outputs)] == ["float64", "float64"]


def test_a_dimension_that_was_not_asked_to_be_open_is_fixed(tmp_path: Path) -> None:
    model = export(zoo.fitted("Ridge"), tmp_path, example=zoo.example("Ridge"), dynamic={})
    assert model.signature.inputs[0].shape == (40, 10)


def test_outputs_are_named_as_asked(tmp_path: Path) -> None:
    example = zoo.example("LogisticRegression")
    model = export(zoo.fitted("LogisticRegression"), tmp_path, example=example, output_names=["class", "share"])
    assert [spec.name for spec in model.signature.outputs] == ["class", "share"]


def test_every_domain_is_imported_once(tmp_path: Path) -> None:
    import onnx

    export(zoo.fitted("LogisticRegression"), tmp_path, example=zoo.example("LogisticRegression"))
    domains = [entry.domain for entry in onnx.load(tmp_path / "model.onnx").opset_import]
    assert len(domains) == len(set(domains))


def test_the_estimator_is_left_as_it_was(tmp_path: Path) -> None:
    voters = zoo.fitted("VotingClassifier soft")
    export(voters, tmp_path, example=zoo.example("VotingClassifier soft"))
    assert voters.flatten_transform is True


@pytest.mark.parametrize("name", ["DecisionTree with holes", "RandomForest with holes", "RandomForestClassifier"])
def test_missing_values_take_the_side_that_the_trees_learned(name: str, tmp_path: Path) -> None:
    example = zoo.example(name)["X"].copy()
    example[np.random.default_rng(1).random(example.shape) < 0.5] = np.nan
    found = agreement.outcomes(zoo.fitted(name), {"X": example}, tmp_path, routes=("skl2onnx", "skl2onnx-double"))
    assert set(found.values()) == {"agrees"}


def test_answers_in_float64_show_the_rounding_of_an_estimator_that_keeps_float32() -> None:
    example = zoo.example("PCA")
    with Original(recognise(zoo.fitted("PCA"))) as original:
        (plain,), (exact,) = original.predict([example]), original.predict([example], double=True)
    assert isinstance(plain, Outputs)
    assert isinstance(exact, Outputs)
    assert exact.arrays[0].dtype == np.float64
    assert 0 < np.abs(exact.arrays[0] - plain.arrays[0]).max() < 1e-2


def test_an_estimator_that_computes_in_float64_has_no_rounding_to_show() -> None:
    with Original(recognise(zoo.fitted("SVC"))) as original:
        (answer,) = original.predict([zoo.example("SVC")], double=True)
    assert isinstance(answer, Failure)
    assert "float64" in answer.reason


@pytest.fixture(scope="module")
def pickled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import joblib

    path = tmp_path_factory.mktemp("pickles") / "model.pkl"
    joblib.dump(zoo.fitted("ColumnTransformer of a frame"), path, compress=3)
    return path


def test_a_pickle_is_opened_only_with_trust(pickled: Path) -> None:
    with pytest.raises(Untrusted) as refused:
        recognise(pickled)
    assert "sardonyx.convert(estimator" in refused.value.hint


def test_a_trusted_pickle_answers_and_exports_in_its_own_process(pickled: Path, tmp_path: Path) -> None:
    name = "ColumnTransformer of a frame"
    found = agreement.outcomes(pickled, zoo.example(name), tmp_path, trust=True)
    assert found == {"skl2onnx": "agrees"}


def test_a_pickle_of_another_release_is_refused(tmp_path: Path) -> None:
    import pickle

    import sklearn

    data = pickle.dumps(zoo.fitted("Ridge"))
    old = "0." + "9" * (len(sklearn.__version__) - 2)
    path = tmp_path / "old.pkl"
    path.write_bytes(data.replace(sklearn.__version__.encode(), old.encode()))
    with (
        pytest.raises(SourceFailed, match=f"made by scikit-learn {old}") as refused,
        Original(recognise(path, trust=True)),
    ):
        pass
    assert "--python" in refused.value.hint


FACTORY = """
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

def fitted():
    return DecisionTreeClassifier(max_depth=3, random_state=0).fit(*load_iris(return_X_y=True))

def empty():
    return DecisionTreeClassifier()
"""


@pytest.mark.rest
def test_a_factory_builds_the_estimator(tmp_path: Path) -> None:
    (tmp_path / "maker.py").write_text(FACTORY)
    found = agreement.outcomes(f"{tmp_path}/maker.py:fitted", zoo.example("KNeighborsClassifier"), tmp_path)
    assert found == {"skl2onnx": "agrees"}


def test_an_estimator_that_was_not_fitted_is_named(tmp_path: Path) -> None:
    (tmp_path / "maker.py").write_text(FACTORY)
    with (
        pytest.raises(SourceFailed, match="DecisionTreeClassifier instance is not fitted"),
        Original(recognise(f"{tmp_path}/maker.py:empty")),
    ):
        pass


@pytest.mark.parametrize("booster", ["XGBClassifier", "LGBMClassifier"])
def test_a_booster_behind_a_scaler_sees_the_same_last_bit(booster: str, tmp_path: Path) -> None:
    library = pytest.importorskip("xgboost" if booster.startswith("XGB") else "lightgbm")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    quiet = {"verbosity": 0} if booster.startswith("XGB") else {"verbose": -1}
    last = getattr(library, booster)(n_estimators=8, max_depth=3, n_jobs=1, **quiet)
    model = make_pipeline(StandardScaler(), last).fit(*zoo.data("wine"))
    example = {"X": zoo.data("wine")[0]}
    assert agreement.outcomes(model, example, tmp_path) == {"skl2onnx": "agrees"}


def test_a_regressor_booster_in_a_pipeline_keeps_its_link(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    last = xgboost.XGBRegressor(objective="count:poisson", booster="dart", rate_drop=0.5, n_estimators=8, n_jobs=1)
    model = make_pipeline(SimpleImputer(), last).fit(*zoo.data("counts"))
    assert agreement.outcomes(model, {"X": zoo.data("counts")[0]}, tmp_path) == {"skl2onnx": "agrees"}
