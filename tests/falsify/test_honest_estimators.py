"""Right exports of estimators are not accused by the rows and texts of the falsifier, thresholds included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.heavy

for library in ("sklearn", "xgboost", "lightgbm", "catboost"):
    pytest.importorskip(library)
probing = pytest.importorskip("estimator_probing")
sklearn_zoo = pytest.importorskip("sklearn_zoo")
boosting_zoo = pytest.importorskip("boosting_zoo")

FAMILIES = (
    "Tree", "Forest", "Boosting", "Boost", "Bagging", "Voting", "Stacking", "Vectorizer", "Tfidf", "Encoder", "Binarizer",
    "Imputer", "Scaler", "Normalizer", "PowerTransformer", "KBins", "Polynomial", "Pipeline", "ColumnTransformer", "GridSearch",
)  # fmt: skip
# What no route exports, or gets right; tests/sources/test_sklearn.py has their reasons.
NOT_EXPORTED = {
    "HashingVectorizer", "IterativeImputer", "TargetEncoder of three classes", "KNNImputer", "lightgbm linear_tree",
    "catboost categories",
}  # fmt: skip
ESTIMATORS = [name for name in sklearn_zoo.ZOO if any(word in name for word in FAMILIES) and name not in NOT_EXPORTED]
BOOSTERS = [name for name in boosting_zoo.ZOO if name not in NOT_EXPORTED]


def right_routes(zoo: Any, name: str, folder: Path, **options: Any) -> set[str]:
    asked = probing.ask(zoo.fitted(name), zoo.example(name), folder, **options)
    assert asked.answers, "the estimator refuses every batch"
    return {route for route, path in asked.exports.items() if not asked.differences(path)}


def test_the_lists_are_wide() -> None:
    assert len(ESTIMATORS) >= 50
    assert len(BOOSTERS) >= 70


@pytest.mark.parametrize("name", ESTIMATORS)
def test_in_float32_an_export_is_right_on_every_batch(name: str, tmp_path: Path) -> None:
    assert right_routes(sklearn_zoo, name, tmp_path)


@pytest.mark.rest
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "Vectorizer" not in name and "Tfidf" not in name])
def test_in_float64_the_double_route_is_right_on_every_batch(name: str, tmp_path: Path) -> None:
    assert right_routes(sklearn_zoo, name, tmp_path, kind="float64", routes=("skl2onnx-double",))


@pytest.mark.parametrize("name", BOOSTERS)
def test_trees_of_a_booster_are_right_on_every_batch(name: str, tmp_path: Path) -> None:
    routes = ("trees", "trees-double")
    assert right_routes(boosting_zoo, name, tmp_path, routes=routes) == set(routes)


@pytest.mark.parametrize("name", BOOSTERS[::4])
def test_trees_of_a_booster_are_right_in_float64(name: str, tmp_path: Path) -> None:
    assert right_routes(boosting_zoo, name, tmp_path, kind="float64", routes=("trees-double",))
