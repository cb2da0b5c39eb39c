"""Transformers that are exported by graphs of our own, in both precisions and with all of their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.heavy

sklearn = pytest.importorskip("sklearn")
probing = pytest.importorskip("estimator_probing")

RANDOM = np.random.default_rng(0)
NUMBERS = RANDOM.normal(size=(300, 3))
HOLES = np.where(RANDOM.random(NUMBERS.shape) < 0.2, np.nan, NUMBERS)
EMPTY = np.where(np.arange(3) == 1, np.nan, HOLES)
WORDS = np.stack(
    [RANDOM.choice(["red", "été", "blue", "rare"], 300, p=[0.5, 0.3, 0.19, 0.01]), RANDOM.choice(["a", "b"], 300)], 1
)
CODES = np.stack([RANDOM.choice([0.5, 3.0, 7.25], 300), RANDOM.choice([1.0, 2.0, np.nan], 300)], 1)


def transformers() -> dict[str, tuple[Any, Any]]:
    from sklearn import impute, preprocessing

    bins: dict[str, Any] = {"quantile_method": "averaged_inverted_cdf"}
    one_hot, imputer = preprocessing.OneHotEncoder, impute.SimpleImputer
    return {
        "mean": (imputer(), HOLES),
        "most frequent": (imputer(strategy="most_frequent"), HOLES),
        "constant": (imputer(strategy="constant", fill_value=-1), HOLES),
        "indicator": (imputer(add_indicator=True), HOLES),
        "a mark of the user's own": (imputer(missing_values=-1.0), np.nan_to_num(HOLES, nan=-1.0)),
        "an empty column goes": (imputer(), EMPTY),
        "an empty column stays": (imputer(keep_empty_features=True), EMPTY),
        "binarizer": (preprocessing.Binarizer(threshold=0.5), NUMBERS),
        "length one": (preprocessing.Normalizer("l1"), NUMBERS),
        "length two": (preprocessing.Normalizer("l2"), NUMBERS),
        "largest": (preprocessing.Normalizer("max"), NUMBERS),
        "yeo-johnson": (preprocessing.PowerTransformer(), NUMBERS),
        "box-cox": (preprocessing.PowerTransformer("box-cox", standardize=False), np.abs(NUMBERS) + 0.1),
        "numbers of bins": (preprocessing.KBinsDiscretizer(4, encode="ordinal", **bins), NUMBERS),
        "flags of bins": (preprocessing.KBinsDiscretizer(4, strategy="uniform", **bins), NUMBERS),
        "products": (preprocessing.PolynomialFeatures(3), NUMBERS),
        "products of two": (preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False), NUMBERS),
        "words": (one_hot(handle_unknown="ignore"), WORDS.astype(object)),
        "rare words": (one_hot(handle_unknown="infrequent_if_exist", min_frequency=10), WORDS.astype(object)),
        "first word dropped": (one_hot(handle_unknown="ignore", drop="first"), WORDS.astype(object)),
        "fractions": (one_hot(handle_unknown="ignore"), CODES),
        "rare fractions": (one_hot(handle_unknown="ignore", max_categories=2), CODES),
    }


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", list(transformers()))
def test_the_export_is_right_on_every_batch(name: str, kind: str, tmp_path: Path) -> None:
    transformer, table = transformers()[name]
    route = "skl2onnx" if kind == "float32" else "skl2onnx-double"
    asked = probing.ask(transformer.fit(table), {"X": table[:20]}, tmp_path, kind=kind, routes=(route,))
    assert asked.answers
    assert asked.refusals == {}
    assert asked.differences(asked.exports[route]) == {}


def test_integers_are_cast_where_no_converter_takes_them(tmp_path: Path) -> None:
    from sklearn.preprocessing import StandardScaler

    table = np.arange(30).reshape(10, 3)
    asked = probing.ask(StandardScaler().fit(table), {"X": table}, tmp_path)
    assert [not asked.differences(path) for path in asked.exports.values()] == [True, True]


def test_skl2onnx_is_left_as_it_was(tmp_path: Path) -> None:
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common._registration import _converter_pool
    from sklearn.feature_extraction.text import CountVectorizer

    before = dict(_converter_pool), dict(sklearn_operator_name_map)
    model = CountVectorizer().fit(["good day"])
    probing.ask(model, {"X": np.array([["good"]], dtype=object)}, tmp_path)
    assert (dict(_converter_pool), dict(sklearn_operator_name_map)) == before


# The mean and spread of the data, and a last step behind a scaler.
PRECISE = {"ridge": (1e7, 1e3), "forest": (1e3, 1.0), "boosting": (1e4, 1.0), "support vectors": (1e5, 1.0)}


@pytest.mark.rest
@pytest.mark.parametrize("name", PRECISE)
def test_convert_takes_float64_where_float32_shows_to_be_wrong(name: str, tmp_path: Path) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    import sardonyx
    from sardonyx.run.session import Session

    last = {
        "ridge": Ridge(),
        "forest": RandomForestRegressor(20, random_state=0),
        "boosting": HistGradientBoostingRegressor(max_iter=10),
        "support vectors": SVR(),
    }[name]
    mean, spread = PRECISE[name]
    x = np.random.default_rng(0).normal(mean, spread, (1500, 4))
    y = (x - mean) @ [1.0, 2.0, 3.0, 4.0] / spread
    model = make_pipeline(StandardScaler(), last).fit(x, y)
    report = sardonyx.convert(model, tmp_path / "m.onnx")
    assert report.ok, report.summary
    assert report["route"] == "skl2onnx-double"
    assert report["inputs"][0]["dtype"] == "float64"
    given = Session(report.artifacts["model"])({"X": x})["prediction"]
    assert np.abs(given[:, 0] - model.predict(x)).max() < 1e-5 * np.abs(y).max()
