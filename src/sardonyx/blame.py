"""Whose fault an unexpected error is: that of a damaged model, which onnx's own checker says, or ours.

Called in the process that met the file, where the checker may crash like anything else that reads the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sardonyx.errors import BrokenModel, Contained, Internal, SardonyxError

_HINT = "sardonyx check says what is wrong with it"


def named(error: Exception, models: Iterable[str | Path]) -> SardonyxError:
    """The error with a name: `BrokenModel` where one of the models is invalid, else a fault of Sardonyx itself."""
    if isinstance(error, SardonyxError):
        return error
    paths = [Path(model) for model in models if Path(model).is_file()]
    if isinstance(error, MemoryError):
        about = f"{paths[0]} needs" if paths else "it needs"
        return Contained(f"{about} more memory than there is", hint="close other programs or use a smaller input")
    for path in paths:
        fault = fault_of(path)
        if fault:
            return BrokenModel(f"{path} is not a valid model: {fault}", hint=_HINT)
    what = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return Internal(
        f"a fault of sardonyx itself: {what}", hint="run the command again with --debug and report what it shows"
    )


def fault_of(path: Path) -> str:
    """What onnx's checker and its strict shape inference say against the model, in one line; empty where they accept it."""
    import onnx

    try:
        proto = onnx.load(path, load_external_data=False)
        onnx.checker.check_model(proto)
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
        for tensor in proto.graph.initializer:
            if tensor.data_location != tensor.EXTERNAL:
                onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # noqa: BLE001  whatever they raise is their judgement
        return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return _unordinary(proto.graph)


def _unordinary(graph: object) -> str:
    """What the checker lets pass and no runtime takes: sizes below zero, and values of an input without a type."""
    for value in (*graph.input, *graph.output, *graph.value_info):  # type: ignore[attr-defined]
        if value.type.WhichOneof("value") is None:
            return f"{value.name or 'a value without a name'} has no type"
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim if size.HasField("dim_value")]
        if any(size < 0 for size in sizes):
            return f"{value.name} has a dimension of {min(sizes)}"
    return ""
