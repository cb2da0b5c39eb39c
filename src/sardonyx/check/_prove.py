"""Child process: whether a mended model loads, and computes what the original computed.

Request: `original` (a path, or null where the original does not load) and `mended`.
Answer: `loads`, `equal` (true, false, or null where nothing was compared), `message`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

# numpy's BLAS reserves address space for every core, and ours is bounded.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import onnxruntime as ort

from sardonyx.errors import SardonyxError
from sardonyx.model import Model
from sardonyx.signature import Arrays

_SEEDS = (0, 1)
# A newer opset may reorder a sum. This is a hundred times float32's rounding, and far below any change of meaning.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-6


def main() -> None:
    request = json.load(sys.stdin)
    Path(request["answer"]).write_text(json.dumps(prove(request["original"], request["mended"])))


def prove(original: str | None, mended: str) -> dict[str, Any]:
    try:
        new = _session(mended)
    except Exception as error:  # noqa: BLE001  whatever the runtime raises is its answer
        return {"loads": False, "equal": None, "message": f"the mended model does not load: {error}"}
    if original is None:
        return {
            "loads": True,
            "equal": None,
            "message": "it loads; the original does not, so there is nothing to compare",
        }
    try:
        equal, worst = _compared(_session(original), new, original)
    except SardonyxError as error:
        return {"loads": True, "equal": None, "message": f"it loads; its outputs were not compared: {error.message}"}
    except Exception as error:  # noqa: BLE001  generated inputs may not suit the model
        return {"loads": True, "equal": None, "message": f"it loads; its outputs were not compared: {error}"}
    verdict = "equal outputs" if equal else "other outputs"
    message = f"it loads and gives {verdict} on {len(_SEEDS)} generated inputs (largest difference {worst:.2g})"
    return {"loads": True, "equal": equal, "message": message}


def _compared(old: Any, new: Any, path: str) -> tuple[bool, float]:
    signature = Model.load(path).signature
    equal, worst = True, 0.0
    for seed in _SEEDS:
        inputs: Arrays = signature.sample(seed=seed)
        for left, right in zip(old.run(None, inputs), new.run(None, inputs), strict=True):
            same, difference = _alike(left, right)
            equal, worst = equal and same, max(worst, difference)
    return equal, worst


def _alike(left: Any, right: Any) -> tuple[bool, float]:
    """Sequences and maps are compared as the runtime gives them; arrays within rounding."""
    if not isinstance(left, np.ndarray) or left.dtype.kind not in "fc":
        return (bool(np.array_equal(left, right)) if isinstance(left, np.ndarray) else left == right), 0.0
    if left.shape != right.shape:
        return False, float("inf")
    with np.errstate(invalid="ignore"):
        difference = float(np.nanmax(np.abs(left - right), initial=0.0))
    return bool(np.allclose(left, right, _RELATIVE, _ABSOLUTE, equal_nan=True)), difference


def _session(path: str) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
