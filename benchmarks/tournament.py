"""What the export tournament costs beyond the exporters' own time: seconds of processor time per candidate.

Prints its section of RESULTS.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sardonyx
from sardonyx.run.session import Session

sys.path.append(str(Path(__file__).parent.parent / "tests"))
import conversions

FIXED, INFERENCES, RUNS = 2.0, 50, 20
CASES = {
    ("PyTorch, real", "mobilenet-v2"), ("PyTorch, real", "efficientnet-lite0"), ("PyTorch, real", "minilm"),
    ("Keras and TensorFlow", "cnn_model.h5"), ("scikit-learn", "RandomForestClassifier"), ("boosting", "xgboost multi:softprob"),
}  # fmt: skip


def main() -> None:
    print("## The tournament's own cost\n")
    print(
        "Processor time that `convert` spends beside the exporters and the first opening of the original, per candidate: asking\n"
        "the original, comparing, ranking. The goal is at most"
        f" {FIXED:g} s and the processor time of {INFERENCES} inferences of the export.\n"
    )
    print("| model | candidates | own time each | one inference | goal | kept |\n|---|---|---|---|---|---|")
    for group, name, arguments in conversions.cases():
        if (group, name) in CASES:
            print(_row(name, *arguments()), flush=True)


def _row(name: str, source: object, options: dict[str, object]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        report = sardonyx.convert(source, Path(folder) / "m.onnx", **options)
        own = report["seconds"]["processor"] / len(report["candidates"])
        inference = _inference(report["path"], options)
    goal = FIXED + INFERENCES * inference
    kept = "yes" if own <= goal else "no"
    return f"| {name} | {len(report['candidates'])} | {own:.2f} s | {1000 * inference:.1f} ms | {goal:.2f} s | {kept} |"


def _inference(path: str, options: dict[str, object]) -> float:
    session = Session(path)
    example = options.get("example")
    inputs = example if isinstance(example, dict) else session.signature.sample(seed=0)
    inputs = session.signature.fit({spec.name: np.asarray(inputs[spec.name]) for spec in session.signature.inputs})
    session.run_fitted(inputs)
    started = time.process_time()
    for _ in range(RUNS):
        session.run_fitted(inputs)
    return (time.process_time() - started) / RUNS


if __name__ == "__main__":
    main()
