"""Models that were fitted on data frames with categories: one input per column, and the words of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.run.session import Session
from sardonyx.sources import Original, recognise

pytestmark = pytest.mark.heavy

for library in ("sklearn", "xgboost", "lightgbm", "catboost", "pandas"):
    pytest.importorskip(library)
probing = pytest.importorskip("estimator_probing")


def data(*colours: str) -> tuple[Any, Any]:
    """A frame of numbers, words and numbered categories, and what depends on all of them."""
    import pandas

    random, rows = np.random.default_rng(0), 300
    frame = pandas.DataFrame({
        "size": random.normal(size=rows),
        "colour": pandas.Categorical(random.choice(colours or ("red", "green", "blue", "teal"), rows)),
        "age": random.integers(0, 90, rows),
        "code": pandas.Categorical(random.choice([10, 20, 30], rows)),
    })  # fmt: skip
    return frame, frame["size"] + (frame.colour == "red") * 3 + (frame.code == 20) * 1.5


def fit(kind: str, frame: Any, y: Any) -> Any:
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    few: dict[str, Any] = {"n_estimators": 10, "n_jobs": 1}
    groups: dict[str, Any] = {"min_data_per_group": 5, "cat_smooth": 1, "verbose": -1}
    classes = (y > y.median()).astype(int)
    return {
        "LGBMRegressor": lambda: lightgbm.LGBMRegressor(**few, **groups).fit(frame, y),
        "LGBMClassifier": lambda: lightgbm.LGBMClassifier(**few, **groups).fit(frame, classes),
        "lightgbm booster": lambda: lightgbm.train({**groups, "num_threads": 1}, lightgbm.Dataset(frame, y), 10),
        "XGBRegressor": lambda: xgboost.XGBRegressor(**few, enable_categorical=True, max_cat_to_onehot=1).fit(frame, y),
        "XGBClassifier": lambda: xgboost.XGBClassifier(**few, enable_categorical=True).fit(frame, classes),
        "xgboost booster": lambda: xgboost.train(
            {"nthread": 1}, xgboost.DMatrix(frame, label=y, enable_categorical=True), 10
        ),
        "HistGradientBoostingRegressor": lambda: HistGradientBoostingRegressor(max_iter=10).fit(frame, y),
        "HistGradientBoostingClassifier": lambda: HistGradientBoostingClassifier(max_iter=10).fit(frame, classes),
    }[kind]()


KINDS = (
    "LGBMRegressor", "LGBMClassifier", "lightgbm booster", "XGBRegressor", "XGBClassifier", "xgboost booster",
    "HistGradientBoostingRegressor", "HistGradientBoostingClassifier",
)  # fmt: skip


def columns(frame: Any, kind: str = "float64") -> dict[str, Any]:
    """The columns as inputs: words as strings, all else as floats."""
    return {
        name: frame[name].astype(object if name == "colour" else kind).to_numpy()[:, None] for name in frame.columns
    }


def of_user(model: Any, frame: Any) -> Any:
    """What the user gets for the frame."""
    if type(model).__module__.startswith("xgboost") and not hasattr(model, "get_booster"):
        import xgboost

        return model.predict(xgboost.DMatrix(frame, enable_categorical=True))
    return model.predict_proba(frame) if hasattr(model, "predict_proba") else model.predict(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_the_export_takes_the_words_of_the_frame(kind: str, tmp_path: Path) -> None:
    frame, y = data()
    model = fit(kind, frame, y)
    inputs = columns(frame)
    asked = probing.ask(model, {name: array[:20] for name, array in inputs.items()}, tmp_path, kind="float64")
    right = [path for path in asked.exports.values() if not asked.differences(path)]
    assert right, {route: asked.differences(path) for route, path in asked.exports.items()}
    (*_, given) = Session(probing.Model.load(right[0]))(inputs).values()
    assert np.allclose(np.asarray(given).reshape(-1), np.asarray(of_user(model, frame)).reshape(-1), atol=1e-5)


@pytest.mark.parametrize("kind", ["LGBMRegressor", "XGBRegressor", "HistGradientBoostingRegressor"])
def test_every_column_is_an_input_and_categories_are_told(kind: str) -> None:
    with Original(recognise(fit(kind, *data()))) as original:
        said = original.describe()
    assert {item["name"]: item["dtype"] == "string" for item in said["inputs"]} == {
        "size": False, "colour": True, "age": False, "code": False,
    }  # fmt: skip
    assert said["categories"]["colour"] == [["blue", "green", "red", "teal"]]
    assert said["categories"]["code"] == [[10, 20, 30]]
    assert said["paths"]["reached"] == said["paths"]["leaves"]


def test_onnxmltools_declines_what_it_would_lose(tmp_path: Path) -> None:
    frame, y = data()
    asked = probing.ask(fit("LGBMRegressor", frame, y), columns(frame.head(5)), tmp_path, routes=("onnxmltools",))
    assert asked.refusals["onnxmltools"].startswith("onnxmltools loses the categories of a data frame")


def test_words_that_xgboost_itself_cuts_are_refused(tmp_path: Path) -> None:
    frame, y = data("red", "été")
    with Original(recognise(fit("XGBRegressor", frame, y))) as original:
        example = {"X": np.zeros((2, 4), np.float32)}
        done = original.export("trees", tmp_path / "m.onnx", example=example, dynamic={}, opset=18)
    assert done.failure is not None
    assert "outside ASCII" in done.failure.reason


def catboost(**options: Any) -> Any:
    from catboost import CatBoostClassifier

    frame, y = data()
    frame = frame.assign(colour=frame.colour.astype(str), note="good cake").drop(columns="code")
    settings: dict[str, Any] = {"iterations": 5, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    kept = frame if "text_features" in options else frame.drop(columns="note")
    return CatBoostClassifier(**settings).fit(kept, (y > 1).astype(int), cat_features=["colour"], **options)


def test_categories_of_catboost_are_refused_with_what_to_do() -> None:
    import sardonyx

    report = sardonyx.convert(catboost(), "unwritten.onnx")
    reasons = {candidate["route"]: candidate["reason"] for candidate in report["candidates"]}
    assert report.verdict == "no-route-agrees"
    assert "encode them before the model" in reasons["trees"]
    assert reasons["catboost"].endswith("export does yet not support categorical features")
    assert ".cpp" not in reasons["catboost"]


def test_a_message_of_catboost_is_shown_whole() -> None:
    import sardonyx

    report = sardonyx.convert(catboost(text_features=["note"]), "unwritten.onnx")
    reasons = [candidate["reason"] for candidate in report["candidates"]]
    assert all(reason.endswith("Can save model with text features only in cbm format") for reason in reasons)


def test_mean_and_variance_of_catboost_are_kept(tmp_path: Path) -> None:
    from catboost import CatBoostRegressor

    x, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200.0)
    settings: dict[str, Any] = {"iterations": 5, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **settings).fit(x, y)
    asked = probing.ask(model, {"X": x[:5].astype(np.float32)}, tmp_path, routes=("trees",))
    assert asked.differences(asked.exports["trees"]) == {}
