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

import onnxruntime as ort

from sardonyx.agreement import Judgement, for_rounding, judge
from sardonyx.errors import SardonyxError
from sardonyx.model import Model
from sardonyx.signature import Arrays

_SEEDS = (0, 1)


def main() -> None:
    request = json.load(sys.stdin)
    Path(request["answer"]).write_text(json.dumps(prove(request["original"], request["mended"])))


def prove(original: str | None, mended: str) -> dict[str, Any]:
    try:
        _session(mended)
    except Exception as error:  # noqa: BLE001  whatever the runtime raises is its answer
        return {"loads": False, "equal": None, "message": f"the mended model does not load: {error}"}
    if original is None:
        return {
            "loads": True,
            "equal": None,
            "message": "it loads; the original does not, so there is nothing to compare",
        }
    try:
        found = _compared(original, mended)
    except SardonyxError as error:
        return {"loads": True, "equal": None, "message": f"it loads; its outputs were not compared: {error.message}"}
    except Exception as error:  # noqa: BLE001  generated inputs may not suit the model
        return {"loads": True, "equal": None, "message": f"it loads; its outputs were not compared: {error}"}
    equal = found.verdict != "mismatch"
    verdict = "equal outputs" if equal else "other outputs"
    message = f"it loads and gives {verdict} on {len(_SEEDS)} generated inputs ({_told(found)})"
    return {"loads": True, "equal": equal, "message": message}


def _compared(original: str, mended: str) -> Judgement:
    """The worst over all inputs. Neither is optimised by the runtime, so that only the mending can make a difference."""
    signature = Model.load(original).signature
    old, new = _session(original, optimize=False), _session(mended, optimize=False)
    total = Judgement(())
    for seed in _SEEDS:
        inputs: Arrays = signature.sample(seed=seed)
        expected = old.run(None, inputs)
        # A newer opset may compute a sum in another order.
        found = judge(
            expected, new.run(None, inputs), for_rounding(expected), names=[o.name for o in old.get_outputs()]
        )
        total = total.merge(found)
    return total


def _told(found: Judgement) -> str:
    notes = [
        f"{output.name}: {output.note}" for output in found.outputs if output.verdict == "mismatch" and output.note
    ]
    worst = max((output.max_abs or 0.0 for output in found.outputs), default=0.0)
    return notes[0] if notes else f"largest difference {worst:.2g}"


def _session(path: str, *, optimize: bool = True) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
