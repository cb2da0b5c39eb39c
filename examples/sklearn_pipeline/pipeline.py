"""A scikit-learn pipeline over a table of numbers and words becomes one ONNX model that takes the table's columns.

    python examples/sklearn_pipeline/pipeline.py [--output FOLDER]

The data is scikit-learn's own table of 442 patients: age, body mass index, blood pressure, six blood values, and the sex,
here as the word it stands for. The model foretells how the disease goes on.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import sardonyx
from sardonyx.bench.interleave import speedup, take_turns
from sardonyx.report import Report, Table
from sardonyx.run.session import Session, Settings

NUMBERS = ["age", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
WORDS = ["sex"]


def patients() -> tuple[pandas.DataFrame, np.ndarray]:
    """Numbers in float32, as ONNX takes them, with holes as real tables have; the sex as a word."""
    table, target = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    table = table.astype(dict.fromkeys(NUMBERS, np.float32))
    table["sex"] = np.where(table["sex"] == 1, "female", "male")
    table.loc[np.random.default_rng(0).random(len(table)) < 0.05, "bp"] = np.nan
    return table, target.to_numpy()


def fitted(table: pandas.DataFrame, target: np.ndarray) -> Pipeline:
    numbers = Pipeline([("fill", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    columns = ColumnTransformer(
        [("numbers", numbers, NUMBERS), ("words", OneHotEncoder(handle_unknown="ignore"), WORDS)]
    )
    forest = GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=0)
    return Pipeline([("columns", columns), ("forest", forest)]).fit(table, target)


def as_inputs(table: pandas.DataFrame) -> dict[str, np.ndarray]:
    """One column of the table for each input of the model."""
    return {name: table[[name]].to_numpy(object if name in WORDS else np.float32) for name in table}


def main(folder: Path) -> dict[str, Any]:
    """Fits, converts and compares; prints the table and gives its figures."""
    table, target = patients()
    known, new, known_target, new_target = train_test_split(table, target, test_size=0.25, random_state=0)
    pipeline = fitted(known, known_target)
    path = folder / "patients.onnx"
    converted = sardonyx.convert(pipeline, path, example=as_inputs(known[:40]))
    before = pipeline.predict(new)
    session = Session(path, Settings(threads=1))
    after = next(iter(session(as_inputs(new)).values())).ravel()
    one, row = new[:1], as_inputs(new[:1])
    rounds = take_turns({"scikit-learn": lambda: pipeline.predict(one), "onnx": lambda: session(row)}, seconds=2)
    faster = speedup(rounds["scikit-learn"], rounds["onnx"])
    figures = {
        "verdict": converted.verdict,
        "difference": float(np.abs(before - after).max()),
        "scikit-learn": float(r2_score(new_target, before)),
        "onnx": float(r2_score(new_target, after)),
        "speedup": faster,
        "path": path,
    }
    rows = (
        ("scikit-learn", figures["scikit-learn"], "", "1"),
        (
            "ONNX",
            figures["onnx"],
            f"{figures['difference']:.2g}",
            f"{faster.ratio:.3g} ({faster.low:.3g} to {faster.high:.3g})",
        ),
    )
    columns = ("model", "R2", "largest difference", "times as fast, one patient")
    shown = Table(f"{len(new)} patients the pipeline has not seen", columns, rows)
    report = Report("example", converted.verdict, converted.ok, tables=(shown,), summary=f"{path}")
    print(report.to_text())
    print(f"Serve it:  sardonyx serve {path}")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=None, help="where the model is written; a new folder by default")
    chosen = parser.parse_args().output or Path(tempfile.mkdtemp(prefix="sardonyx-example-"))
    chosen.mkdir(parents=True, exist_ok=True)
    main(chosen)
