"""What estimators say about the values that their inputs may take: words, categories, leaves, missing values, precision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.sources import Original, Outputs, recognise

pytestmark = pytest.mark.heavy

for library in ("sklearn", "xgboost", "lightgbm", "catboost"):
    pytest.importorskip(library)
sklearn_zoo = pytest.importorskip("sklearn_zoo")
boosting_zoo = pytest.importorskip("boosting_zoo")


def described(model: Any) -> dict[str, Any]:
    with Original(recognise(model)) as original:
        return original.describe()


def drawn(mean: float, spread: float, rows: int = 1500) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    x = random.normal(mean, spread, (rows, 4))
    return x, (x - mean) @ [1.0, 2.0, 3.0, 4.0] / spread


TREES = {
    "RandomForestClassifier": sklearn_zoo, "RandomForest with holes": sklearn_zoo, "ExtraTreesRegressor": sklearn_zoo,
    "HistGradientBoosting with holes": sklearn_zoo, "BaggingClassifier": sklearn_zoo, "StackingRegressor": sklearn_zoo,
    "ColumnTransformer and forest": sklearn_zoo, "OrdinalEncoder and histogram boosting": sklearn_zoo,
    "xgboost categories": boosting_zoo, "lightgbm categories": boosting_zoo, "catboost MultiClass": boosting_zoo,
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_rows_reach_every_leaf_that_can_be_reached(name: str) -> None:
    paths = described(TREES[name].fitted(name))["paths"]
    assert paths["reached"] == paths["leaves"] > 0
    assert "blocked" not in paths


def test_the_leaves_are_those_of_the_trees() -> None:
    forest = sklearn_zoo.fitted("RandomForestClassifier")
    paths = described(forest)["paths"]
    assert paths["leaves"] == sum(tree.get_n_leaves() for tree in forest.estimators_)
    rows = np.array(paths["rows"]["X"], np.float32)
    visited = forest.apply(rows)
    assert all(len(set(visited[:, n])) == tree.get_n_leaves() for n, tree in enumerate(forest.estimators_))


def test_rows_lie_on_the_threshold_of_a_split_that_they_reach() -> None:
    tree = sklearn_zoo.fitted("DecisionTreeRegressor").tree_
    edges = described(sklearn_zoo.fitted("DecisionTreeRegressor"))["paths"]["edges"]
    rows, cells = np.array(edges["rows"]["X"]), [place for _, place in edges["cells"]]
    on = {(place, rows[row, place]) for row, place in enumerate(cells)}
    inner = tree.children_left >= 0
    assert on == set(zip(tree.feature[inner].tolist(), tree.threshold[inner].tolist(), strict=True))
    assert all(tree.decision_path(rows[[row]].astype(np.float32)).toarray()[0][inner].any() for row in range(len(rows)))


def test_thresholds_behind_a_scaler_are_found_in_the_raw_features() -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    x, y = drawn(500.0, 20.0)
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4, random_state=0)).fit(x, y)
    said = described(model)
    scaler, tree = model[0], model[1].tree_
    raw = {
        round(float(limit * scaler.scale_[feature] + scaler.mean_[feature]), 6)
        for feature, limit in zip(tree.feature, tree.threshold, strict=True)
        if feature >= 0
    }
    edges = said["paths"]["edges"]
    found = {round(edges["rows"]["X"][row][place], 6) for row, (_, place) in enumerate(edges["cells"])}
    assert found == raw
    assert said["paths"]["exact"] is False


def test_a_step_that_cannot_be_undone_is_named_and_its_leaves_count_as_not_reached() -> None:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeRegressor

    x, y = drawn(0.0, 1.0, 100)
    model = make_pipeline(RBFSampler(n_components=5, random_state=0), DecisionTreeRegressor(max_depth=3)).fit(x, y)
    paths = described(model)["paths"]
    assert paths["reached"] == 0 < paths["leaves"]
    assert "RBFSampler cannot be undone" in paths["blocked"]


def test_leaves_that_no_row_reaches_make_the_verdict_partial(tmp_path: Path) -> None:
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer, StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    import sardonyx

    x, y = drawn(0.0, 1.0, 100)
    union = make_union(StandardScaler(), FunctionTransformer())  # there are two ways back, so it is not undone
    model = make_pipeline(union, DecisionTreeRegressor(max_depth=3, random_state=0)).fit(x, y)
    report = sardonyx.convert(model, tmp_path / "m.onnx", example={"X": x[:5].astype(np.float32)})
    assert report.verdict == "partial"
    (finding,) = [finding for finding in report.findings if finding.code == "unreached-leaves"]
    assert "8 of the 8 leaves" in finding.message
    assert "FeatureUnion cannot be undone" in finding.message


def test_a_large_forest_is_described_within_bounds() -> None:
    from sklearn.ensemble import RandomForestRegressor

    x, y = drawn(0.0, 1.0, 3000)
    said = described(RandomForestRegressor(20, random_state=0).fit(x, y))
    assert len(said["paths"]["rows"]["X"]) <= 5000
    assert len(said["paths"]["edges"]["cells"]) <= 2000
    assert said["paths"]["reached"] > 20_000  # a row reaches a leaf of every tree
    assert len(json.dumps(said)) < 2_000_000


def test_the_words_of_a_vocabulary_and_stop_words_are_told() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    model = TfidfVectorizer(ngram_range=(1, 2), stop_words=["the"]).fit(["the café in winter", "coffee"])
    assert described(model)["words"] == {"X": sorted(["the", "café", "winter", "coffee", "in", "café in", "in winter"])}


def test_categories_are_told_for_every_column() -> None:
    said = described(sklearn_zoo.fitted("ColumnTransformer of a frame"))
    assert said["categories"]["colour"] == [["deep red", "pale", "red"]]
    assert said["texts"]["cellar"] == ["north", "south"]
    assert said["categories"]["alcohol"] == [[]]
    assert described(sklearn_zoo.fitted("OrdinalEncoder of words"))["categories"]["X"][0] == ["deep red", "pale", "red"]


def test_a_frame_says_which_columns_take_missing_values() -> None:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    frame, y = sklearn_zoo.data("frame")
    parts = [("filled", SimpleImputer(), ["malic_acid"]), ("kept", "passthrough", ["alcohol"])]
    said = described(make_pipeline(ColumnTransformer(parts), Ridge()).fit(frame[["alcohol", "malic_acid"]], y))
    assert said["missing"] == {"malic_acid": [0]}
    assert said["allow_nan"] is True
    assert said["infinite"] is False


@pytest.mark.parametrize(
    "name", ["OneHotEncoder of words", "ColumnTransformer of a frame", "LabelEncoder", "Tfidf pipeline"]
)
def test_the_estimator_brings_an_example_that_it_accepts(name: str) -> None:
    with Original(recognise(sklearn_zoo.fitted(name))) as original:
        said = original.describe()
        kinds = {item["name"]: object if item["dtype"] == "string" else item["dtype"] for item in said["inputs"]}
        example = {name: np.array(rows, kinds[name]) for name, rows in said["example"].items()}
        (answer,) = original.predict([example])
    assert isinstance(answer, Outputs)
    assert len(answer.arrays[0]) == 2


# (mean, spread) of the data, and the precision that a model behind a scaler needs for it.
PRECISION = [((0.0, 1.0), "float32"), ((1e6, 1e5), "float32"), ((1e6, 1.0), "float64"), ((1e9, 1.0), "float64")]


@pytest.mark.parametrize(("data", "wanted"), PRECISION)
def test_float64_is_asked_for_where_float32_moves_the_answers(data: tuple[float, float], wanted: str) -> None:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = drawn(*data)
    for last in (Ridge(), RandomForestRegressor(8, random_state=0)):
        said = described(make_pipeline(StandardScaler(), last).fit(x, y))
        assert said["inputs"][0]["dtype"] == wanted
        assert sorted(said["inputs"][0]["dtypes"]) == ["float32", "float64"]


def test_trees_of_the_raw_features_need_no_float64() -> None:
    from sklearn.ensemble import RandomForestRegressor

    x, y = drawn(1e6, 1.0)
    assert described(RandomForestRegressor(8, random_state=0).fit(x, y))["inputs"][0]["dtype"] == "float32"


@pytest.mark.parametrize(("kind", "rows", "wanted"), [("float64", 1500, "float64"), ("float32", 1500, "float32")])
def test_histogram_boosting_turns_at_values_of_its_data(kind: str, rows: int, wanted: str) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    x, y = drawn(0.0, 1.0, rows)
    model = HistGradientBoostingRegressor(max_iter=5).fit(x.astype(kind), y)
    assert described(model)["inputs"][0]["dtype"] == wanted


def test_an_estimator_that_refuses_float64_says_so() -> None:
    said = described(sklearn_zoo.fitted("KMeans"))  # fitted on float32
    assert said["inputs"][0]["dtypes"] == ["float32"]
    assert said["example"]
