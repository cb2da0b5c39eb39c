"""Child process: what onnx itself says of a model file. Its checker and its shape inference are native code and may crash.

Request: `path`, `read_external` and `inferred`, a path for the model with the inferred types and without its large tensors.
Answer: `checker` and `shapes`, each a message or null. The stage is printed first, so that a crash can be placed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

# numpy's BLAS reserves address space for every core, and ours is bounded.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import onnx

from sardonyx import external

# Shapes, axes and other small constants decide inferred shapes; weights do not, and may be gigabytes.
LARGEST_KEPT = 1 << 16
_EXTERNAL = onnx.TensorProto.EXTERNAL
_REFUSALS = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError)


def main() -> None:
    request = json.load(sys.stdin)
    path = Path(request["path"])
    print("stage: checker", flush=True)  # noqa: T201
    checker = _message(lambda: onnx.checker.check_model(str(path)))
    print("stage: shapes", flush=True)  # noqa: T201
    model = onnx.load_model(path, load_external_data=False)
    strip(model, path.parent if request["read_external"] else None)
    inferred, shapes = infer(model)
    Path(request["inferred"]).write_bytes(inferred.SerializeToString())
    Path(request["answer"]).write_text(json.dumps({"checker": checker, "shapes": shapes}))


def infer(model: onnx.ModelProto) -> tuple[onnx.ModelProto, str | None]:
    """The model with as many types as can be inferred, and the message of the strict inference if it failed."""
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True), None
    except _REFUSALS as error:
        message = str(error)
    try:
        return onnx.shape_inference.infer_shapes(model), message
    except _REFUSALS:
        return model, message


def strip(model: onnx.ModelProto, folder: Path | None) -> None:
    """Drops the bytes of large tensors, and reads small ones from `folder`, so that the model is small and still infers."""
    for tensor in external.tensors(model):
        if tensor.data_location != _EXTERNAL and tensor.ByteSize() > LARGEST_KEPT:
            tensor.CopyFrom(_without_data(tensor))
        elif tensor.data_location == _EXTERNAL and folder is not None and _size(tensor) <= LARGEST_KEPT:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


def _without_data(tensor: onnx.TensorProto) -> onnx.TensorProto:
    empty = onnx.TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, data_location=_EXTERNAL)
    empty.external_data.add(key="location", value="left out")
    return empty


def _size(tensor: onnx.TensorProto) -> int:
    given = {item.key: item.value for item in tensor.external_data}.get("length", "")
    return int(given) if given.isdigit() else LARGEST_KEPT + 1


def _message(check: Callable[[], object]) -> str | None:
    try:
        check()
    except Exception as error:  # noqa: BLE001  whatever the checker raises is its answer
        return str(error) or type(error).__name__
    return None


if __name__ == "__main__":
    main()
