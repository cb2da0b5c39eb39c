"""Whether `sardonyx ship` ends with a model that is not slower than the framework's own inference.

Prints its section of RESULTS.md. The bundles are kept in build/bench, so that a second run measures alone:

    python benchmarks/ship.py --prepare      # everything but the measurement
    python benchmarks/ship.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _subjects
import numpy as np

import sardonyx
from sardonyx.report import Report

NAMES = ("mobilenet-v2", "minilm", "forest")
SETTINGS: dict[str, dict[str, Any]] = {
    "optimize": {"seconds": 40},
    "quantize": {"time": 120},
    "bench": {"seconds": 8, "cold": False},
}


def main() -> None:
    prepare = "--prepare" in sys.argv
    if not prepare:
        print("## Ship: against the framework's own inference\n")
        print(
            "The model that `sardonyx ship` ends with, and the framework on the same input and threads, taking turns; one\n"
            "example per call. The goal is a model that is not slower.\n"
        )
        print("| model | framework | shipped | times as fast | 95 % interval | quantised | not slower |")
        print("|---|---|---|---|---|---|---|")
    for name, report in _shipped(skip=["bench"] if prepare else []):
        print(f"{name}: {report.verdict}" if prepare else _row(name, report), flush=True)


def _shipped(skip: list[str]) -> Iterator[tuple[str, Report]]:
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")] or list(NAMES)
    for subject in _subjects.subjects(wanted):
        bundle = subject.model.parent / "bundle"
        source, options = _source(subject)
        report = sardonyx.ship(source, bundle, data=subject.data, settings=SETTINGS, skip=skip, **options)
        assert report.ok, report.to_text()
        yield subject.name, report


def _source(subject: _subjects.Subject) -> tuple[Any, dict[str, Any]]:
    """What is shipped and how convert opens it."""
    if subject.name == "forest":
        return _forest(subject.data.parent), {"trust": True}
    import torch_real

    case = torch_real.REAL[subject.name]
    return case.source(), {"inputs": case.inputs, "weights": case.weights_path(), "example": case.example()}


def _forest(folder: Path) -> Path:
    """A hundred trees on scikit-learn's digits, in a file, so that a second run knows it again."""
    path = folder / "forest.joblib"
    if not path.exists():
        import joblib
        from sklearn.datasets import load_digits
        from sklearn.ensemble import RandomForestClassifier

        rows, labels = load_digits(return_X_y=True)
        joblib.dump(RandomForestClassifier(100, random_state=0).fit(rows[::2].astype(np.float32), labels[::2]), path)
    return path


def _row(name: str, report: Report) -> str:
    speed = report["metrics"]["speed"]
    stages = {stage["stage"]: stage for stage in report["stages"]}
    times = {row["name"]: row["p50"] * 1e3 for row in stages["bench"]["variants"]}
    quantised = "yes" if stages["quantize"]["verdict"] == "quantized" else "no"
    kept = "no" if speed["verdict"] == "slower" else "yes"
    return (
        f"| {name} | {times['framework']:.3g} ms | {times['model']:.3g} ms | {speed['ratio']:.2f} | "
        f"{speed['low']:.2f} to {speed['high']:.2f} | {quantised} | {kept} |"
    )


if __name__ == "__main__":
    main()
