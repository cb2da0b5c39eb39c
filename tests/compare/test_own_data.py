"""The user's own table as data of compare: the columns that the estimator was fitted on, in the precision that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sardonyx
from sardonyx.sources import Original, recognise

pytestmark = pytest.mark.heavy
pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def table() -> Any:
    random = np.random.default_rng(0)
    frame = pandas.DataFrame(random.normal(size=(64, 3)), columns=["a", "b", "c"])
    return frame.assign(target=(frame["a"] - 2 * frame["c"] > 0).astype(int))


def test_columns_go_in_as_the_estimator_was_fitted_on_them(table: Any, tmp_path: Path) -> None:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(table[["c", "a", "b"]], 3 * table["c"] - table["a"])
    sardonyx.convert(model, tmp_path / "m.onnx", inputs=["X=float32[batch,3]"])
    table[["b", "target", "a", "c"]].to_csv(tmp_path / "rows.csv")
    for data in (tmp_path / "rows.csv", table):
        assert sardonyx.compare(model, tmp_path / "m.onnx", data=data).ok
    outputs = sardonyx.run(tmp_path / "m.onnx", data=tmp_path / "rows.csv").artifacts["outputs"]
    assert np.allclose(outputs["prediction"][:, 0], 3 * table["c"] - table["a"], atol=1e-4)


@pytest.mark.rest
def test_the_reference_is_asked_in_the_precision_of_the_data(tmp_path: Path) -> None:
    from sklearn.preprocessing import StandardScaler

    numbers = 1e8 + np.random.default_rng(0).normal(size=(64, 2))  # of which float32 keeps steps of 8
    model = StandardScaler().fit(numbers)
    sardonyx.convert(model, tmp_path / "m.onnx", inputs=["X=float32[batch,2]"])
    pandas.DataFrame(numbers, columns=["a", "b"]).to_parquet(tmp_path / "rows.parquet")
    assert sardonyx.compare(model, tmp_path / "m.onnx", data=tmp_path / "rows.parquet").verdict == "mismatch"
    assert sardonyx.compare(model, tmp_path / "m.onnx", data={"X": numbers.astype(np.float32)}).ok


@pytest.mark.rest
def test_labels_of_any_name_stay_out_of_the_inputs(table: Any, tmp_path: Path) -> None:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(table[["a", "b", "c"]].to_numpy(), table["target"])
    sardonyx.convert(model, tmp_path / "m.onnx")
    assert sardonyx.compare(model, tmp_path / "m.onnx", data=table, label="target").ok
    with pytest.raises(sardonyx.errors.BadData, match="takes 3 columns of numbers, and there are 4") as caught:
        sardonyx.compare(model, tmp_path / "m.onnx", data=table)
    assert "--label target" in caught.value.hint


@pytest.mark.rest
def test_every_library_tells_the_names_of_its_columns(table: Any) -> None:
    catboost, lightgbm, xgboost = map(pytest.importorskip, ("catboost", "lightgbm", "xgboost"))
    from sklearn.tree import DecisionTreeClassifier

    makers = (
        DecisionTreeClassifier,
        lambda: xgboost.XGBClassifier(n_estimators=2),
        lambda: lightgbm.LGBMClassifier(n_estimators=2, verbose=-1),
        lambda: catboost.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False),
    )
    features = table[["c", "a"]]
    for make in makers:
        for given, names in ((features, ["c", "a"]), (features.to_numpy(), [])):
            with Original(recognise(make().fit(given, table["target"]))) as original:
                assert original.describe()["columns"] == names
