"""Does an export say what the original says? Asked directly, on the example, without the tournament."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.model import Model
from sardonyx.run.session import Session
from sardonyx.sources import Failure, Original, Outputs, recognise

Arrays = Mapping[str, np.ndarray[Any, Any]]
OPTIONS: dict[str, Any] = {"opset": 18, "input_names": [], "output_names": [], "training": False}
# float32 sums of some hundred terms; far below any fault that the zoos show.
RELATIVE = 3e-5


def dynamic(example: Arrays) -> dict[str, dict[str, str]]:
    return {name: {"0": "batch"} for name in example}


def outcomes(
    source: Any, example: Arrays, folder: Path, *, routes: Sequence[str] = (), **options: Any
) -> dict[str, str]:
    """'agrees', 'wrong: ...' or 'refused: ...' for every route, or for those up to the first that agrees if none is named."""
    found = {}
    with Original(recognise(source, **options)) as original:
        (answer,) = original.predict([example])
        assert isinstance(answer, Outputs), answer
        deciding = original.describe().get("decided_by", {})
        for route in routes or original.source.routes():
            out = folder / f"{route}.onnx"
            exported = original.export(route, out, example=example, dynamic=dynamic(example), **OPTIONS)
            if exported.failure is not None:
                found[route] = f"refused: {exported.failure.reason}"
                continue
            found[route] = verdict(answer, out, example, deciding)
            if found[route] == "agrees" and not routes:
                break
    return found


def verdict(answer: Outputs, path: Path, example: Arrays, deciding: Mapping[str, str]) -> str:
    """The exported model's answers against the original's."""
    try:
        session = Session(Model.load(path))
        given = list(session(dict(example)).values())
    except Exception as error:  # noqa: BLE001  whatever keeps it from running is the finding
        return f"wrong: {' '.join(str(error).split())[:200]}"
    if len(given) != len(answer.arrays):
        return f"wrong: {len(given)} outputs for {len(answer.arrays)}"
    arrays = dict(zip(answer.names, answer.arrays, strict=True))
    for name, expected, got in zip(answer.names, answer.arrays, given, strict=True):
        even = _nearly_even(arrays[deciding[name]]) if name in deciding else np.zeros(len(expected), bool)
        fault = _fault(expected[~even], np.asarray(got)[~even] if len(got) == len(even) else np.asarray(got))
        if fault:
            return f"wrong: {name} {fault}"
    return "agrees"


def _fault(expected: Any, got: Any) -> str:
    if expected.shape != got.shape:
        return f"has the shape {got.shape}, not {expected.shape}"
    if expected.dtype.kind != "f":
        words = expected.dtype.kind in "OUS"
        differing = int(np.count_nonzero(expected.astype(str) != got.astype(str) if words else expected != got))
        return f"differs in {differing}" if differing else ""
    if not np.array_equal(np.isnan(expected), np.isnan(got)):
        return "is NaN elsewhere"
    error = float(np.nanmax(np.abs(expected - got), initial=0.0))
    scale = float(np.nanmax(np.abs(expected), initial=0.0))
    return f"is off by {error:g} of {scale:g}" if error > RELATIVE * scale + 1e-6 else ""


def _nearly_even(scores: Any) -> Any:
    """The rows in which two classes, or the two sides of zero, are as good as equal."""
    if scores.shape[1] == 1:
        return np.abs(scores[:, 0]) < 1e-4 * np.abs(scores).max()
    best = np.sort(scores, axis=1)
    return best[:, -1] - best[:, -2] < 1e-6


def answers(source: Any, example: Arrays, **options: Any) -> Outputs:
    """The original's own answer."""
    with Original(recognise(source, **options)) as original:
        (answer,) = original.predict([example])
    assert not isinstance(answer, Failure), answer.reason
    return answer
