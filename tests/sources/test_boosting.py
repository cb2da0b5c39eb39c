"""XGBoost, LightGBM and CatBoost: the whole zoo by every route, files, and the exact side of a threshold."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halves import split
from sardonyx.convert import repairs
from sardonyx.errors import SourceFailed, Untrusted
from sardonyx.model import Model
from sardonyx.sources import Original, recognise

pytestmark = pytest.mark.heavy

for library in ("xgboost", "lightgbm", "catboost"):
    pytest.importorskip(library)
agreement = pytest.importorskip("agreement")
zoo = pytest.importorskip("boosting_zoo")

# What no route takes, and words of the line that says so.
REFUSED = {"lightgbm linear_tree": "linear model in each leaf", "catboost categories": "categorical"}
# What the library's own route writes without a word and gets wrong.
WRONG = {
    "xgboost reg:quantileerror", "xgboost reg:logistic", "xgboost binary:logistic regressor", "xgboost two targets",
    "xgboost multi:softmax", "xgboost survival:aft", "xgboost forest", "xgboost booster binary:logitraw",
    "xgboost booster multi:softmax", "lightgbm square root", "lightgbm binary sigmoid=2", "lightgbm multiclassova",
    "lightgbm forest", "lightgbm forest regressor", "lightgbm linear_tree", "lightgbm zero_as_missing", "catboost Poisson",
    "catboost MultiClassOneVsAll",
}  # fmt: skip
# Of those, what one repair or a pair of them brings back.
REPAIRED = {
    "xgboost reg:logistic": "starting score set, missing link function appended",
    "xgboost binary:logistic regressor": "starting score set, missing link function appended",
    "xgboost multi:softmax": "missing link function appended",
    "lightgbm multiclassova": "sigmoid for every class",
    "catboost Poisson": "missing link function appended",
    "catboost MultiClassOneVsAll": "sigmoid for every class",
}


@pytest.mark.parametrize("name", zoo.ZOO)
def test_the_trees_say_what_the_model_says(name: str, tmp_path: Path) -> None:
    routes = ("trees", "trees-double")
    found = agreement.outcomes(zoo.fitted(name), zoo.example(name), tmp_path, routes=routes)
    if name in REFUSED:
        assert all(text.startswith("refused") and REFUSED[name] in text for text in found.values()), found
    else:
        assert found == dict.fromkeys(routes, "agrees")


@pytest.mark.parametrize("name", zoo.ZOO)
def test_the_other_route_agrees_declines_or_is_caught(name: str, tmp_path: Path) -> None:
    route = "catboost" if name.startswith("catboost") else "onnxmltools"
    found = agreement.outcomes(zoo.fitted(name), zoo.example(name), tmp_path, routes=(route,))[route]
    assert "\n" not in found
    assert found.startswith("wrong") == (name in WRONG), found


@pytest.mark.parametrize("name", REPAIRED)
def test_a_known_fault_is_repaired(name: str, tmp_path: Path) -> None:
    example = zoo.example(name)
    with Original(recognise(zoo.fitted(name))) as original:
        route = original.source.routes()[1]
        (answer,) = original.predict([example])
        settings = {"dynamic": agreement.dynamic(example), **agreement.OPTIONS}
        assert original.export(route, tmp_path / "m.onnx", example=example, **settings).failure is None
        offered = dict(repairs.candidates(Model.load(tmp_path / "m.onnx"), original.describe()))
    offered[REPAIRED[name]].save(tmp_path / "repaired.onnx")
    assert agreement.verdict(answer, tmp_path / "repaired.onnx", example, {}) == "agrees"


@pytest.mark.parametrize(
    "name", ["xgboost reg:squarederror", "lightgbm regression", "catboost RMSE", "lightgbm categories"]
)
def test_values_on_and_beside_a_threshold_take_the_same_side(name: str, tmp_path: Path) -> None:
    with Original(recognise(zoo.fitted(name))) as original:
        columns = original.describe()["landmarks"]["X"]
    assert any(columns)
    rows = []
    for step in (-np.inf, 0.0, np.inf):
        for index in range(12):
            on = np.array([c[index % len(c)] if c else 0.0 for c in columns], np.float32)
            rows.append(on if step == 0 else np.nextafter(on, np.float32(step)))
    found = agreement.outcomes(zoo.fitted(name), {"X": np.stack(rows)}, tmp_path, routes=("trees", "trees-double"))
    assert set(found.values()) == {"agrees"}, found


WITH_HOLES = (
    "xgboost with holes", "lightgbm with holes", "lightgbm use_missing=false", "catboost with holes", "xgboost gblinear",
    "xgboost categories", "lightgbm categories",
)  # fmt: skip


@pytest.mark.parametrize("name", WITH_HOLES)
def test_missing_values_take_the_same_side(name: str, tmp_path: Path) -> None:
    example = zoo.example(name)["X"].copy()
    example[np.random.default_rng(1).random(example.shape) < 0.5] = np.nan
    found = agreement.outcomes(zoo.fitted(name), {"X": example}, tmp_path, routes=("trees", "trees-double"))
    assert set(found.values()) == {"agrees"}, found


def test_unknown_and_broken_categories_are_treated_alike(tmp_path: Path) -> None:
    for name in ("xgboost categories", "lightgbm categories"):
        example = zoo.example(name)["X"].copy()
        example[:, 0] = np.resize(np.array([-1, -0.5, 0.5, 7.9, 8, 1000], np.float32), len(example))
        found = agreement.outcomes(zoo.fitted(name), {"X": example}, tmp_path, routes=("trees",))
        assert found == {"trees": "agrees"}, name


def test_a_booster_is_described() -> None:
    with Original(recognise(zoo.fitted("xgboost count:poisson"))) as original:
        said = original.describe()
    floats = ["float32", "float64"]
    assert said["inputs"] == [{"name": "X", "dtype": "float32", "shape": ["batch", 10], "dtypes": floats}]
    assert [output["name"] for output in said["outputs"]] == ["prediction"]
    assert (said["framework"], said["objective"], said["link"]) == ("xgboost", "count:poisson", "exp")
    assert said["allow_nan"] is True
    assert len(said["landmarks"]["X"]) == 10


FILES: dict[str, tuple[str, str]] = {
    "model.json": ("xgboost multi:softprob", "xgboost"),
    "model.ubj": ("xgboost booster count:poisson", "xgboost"),
    "model.txt": ("lightgbm booster multiclass", "lightgbm"),
    "model.cbm": ("catboost names", "catboost"),
    "regression.cbm": ("catboost RMSE", "catboost"),
}


@pytest.mark.parametrize("file", split(FILES, "model.json", "model.txt", "model.cbm"))
def test_a_file_is_recognised_opened_and_exported_in_its_own_process(file: str, tmp_path: Path) -> None:
    name, form = FILES[file]
    path = tmp_path / file
    zoo.fitted(name).save_model(str(path))
    renamed = path.rename(tmp_path / "model")  # told by its bytes, not by its name
    source = recognise(renamed)
    assert (source.plugin, source.form) == ("boosting", form)
    example = zoo.example(name)
    expected = agreement.answers(zoo.fitted(name), example)
    with Original(source) as original:
        (answer,) = original.predict([example])
        settings = {"dynamic": agreement.dynamic(example), **agreement.OPTIONS}
        done = original.export("trees", tmp_path / "m.onnx", example=example, **settings)
    assert done.failure is None
    assert agreement.verdict(answer, tmp_path / "m.onnx", example, {}) == "agrees"
    assert answer.names == expected.names
    for one, two in zip(answer.arrays, expected.arrays, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.rest
def test_a_pickle_is_opened_only_with_trust(tmp_path: Path) -> None:
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(zoo.fitted("xgboost binary:logistic")))
    with pytest.raises(Untrusted) as refused:
        recognise(path)
    assert "save_model" in refused.value.hint
    source = recognise(path, trust=True)
    assert (source.plugin, source.form) == ("boosting", "pickle-xgboost")
    found = agreement.outcomes(path, zoo.example("xgboost binary:logistic"), tmp_path, trust=True)
    assert found == {"trees": "agrees"}


def test_a_model_that_was_not_fitted_is_named() -> None:
    import xgboost

    with (
        pytest.raises(Exception, match="XGBClassifier has not been fitted"),
        Original(recognise(xgboost.XGBClassifier())),
    ):
        pass


FACTORY = """
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from lightgbm import LGBMRegressor

def piped():
    last = LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1)
    return make_pipeline(StandardScaler(), last).fit(*load_diabetes(return_X_y=True))

def class_of_it():
    return LGBMRegressor
"""


@pytest.mark.rest
def test_a_factory_may_build_a_pipeline_around_a_booster(tmp_path: Path) -> None:
    (tmp_path / "maker.py").write_text(FACTORY)
    found = agreement.outcomes(
        f"{tmp_path}/maker.py:piped", zoo.example("lightgbm regression"), tmp_path, routes=("trees",)
    )
    assert found == {"trees": "agrees"}


@pytest.mark.rest
def test_a_factory_that_gives_a_class_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "maker.py").write_text(FACTORY)
    with pytest.raises(SourceFailed, match="a class"), Original(recognise(f"{tmp_path}/maker.py:class_of_it")):
        pass


def test_outputs_and_dimensions_are_named_as_asked(tmp_path: Path) -> None:
    name = "xgboost multi:softprob"
    settings: dict[str, Any] = {
        **agreement.OPTIONS,
        "dynamic": {"X": {"0": "rows"}},
        "output_names": ["class", "share"],
    }
    with Original(recognise(zoo.fitted(name))) as original:
        for route in original.source.routes():
            done = original.export(route, tmp_path / "m.onnx", example=zoo.example(name), **settings)
            assert done.failure is None
            signature = Model.load(tmp_path / "m.onnx").signature
            assert [str(spec) for spec in signature.inputs] == ["X=float32[rows,13]"]
            assert [str(spec) for spec in signature.outputs] == ["class=int64[rows]", "share=float32[rows,3]"]


@pytest.mark.rest
@pytest.mark.parametrize(
    ("name", "verdict"), [("xgboost reg:logistic", "agrees"), ("xgboost booster binary:logitraw", "wrong")]
)
def test_the_tournament_takes_no_jump_for_rounding(name: str, verdict: str, tmp_path: Path) -> None:
    """A tree jumps where an input moves across a threshold; that must not widen the tolerance for a missing link."""
    import sardonyx

    report = sardonyx.convert(zoo.fitted(name), tmp_path / "m.onnx", example=zoo.example(name))
    found = {candidate["route"]: candidate for candidate in report.fields["candidates"]}
    assert report.ok
    assert found["trees"]["verdict"] == "agrees"
    assert found["onnxmltools"]["verdict"] == verdict
    assert bool(found["onnxmltools"]["repairs"]) == (verdict == "agrees")
