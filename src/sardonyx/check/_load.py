"""Child process: whether onnxruntime loads a model file.

Request: `path`. Answer: `loaded`, `message` (why not), `release` and `seconds`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

# numpy's BLAS reserves address space for every core, and ours is bounded.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import onnxruntime as ort

_WARNING = 2


def main() -> None:
    request = json.load(sys.stdin)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Warnings go to stderr: they say when the optimizer ran out of memory and went on without.
    options.log_severity_level = _WARNING
    start = time.perf_counter()
    message = ""
    try:
        ort.InferenceSession(request["path"], options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  whatever the runtime raises is its answer
        message = str(error) or type(error).__name__
    answer = {
        "loaded": not message,
        "message": message,
        "release": ort.__version__,
        "seconds": time.perf_counter() - start,
    }
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
