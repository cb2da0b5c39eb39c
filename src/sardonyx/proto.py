"""Reading a model file, or saying what the file is instead. Apart from `Model`, since onnx_ir takes long to import."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from sardonyx import wire
from sardonyx.errors import BrokenModel, InputError, NotAModel, NotFound

PROTOBUF_LIMIT = (1 << 31) - 1


def read_proto(path: Path) -> onnx.ModelProto:
    """The parsed model file without its external data, or an error that says what the file is instead."""
    size = _size(path)
    if size == 0:
        raise NotAModel(f"{path} is empty", hint="the export or the download did not finish; make the file again")
    if size > PROTOBUF_LIMIT:
        raise BrokenModel(
            f"{path} has {size} bytes, and protobuf ends at 2 GiB",
            hint="export the model again with its weights as external data",
        )
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise wire.explain(path) from error
    if not proto.ir_version or not proto.HasField("graph"):
        raise NotAModel(
            f"{path} is not an ONNX model: it has no graph",
            hint="convert it first: sardonyx convert SOURCE -o model.onnx",
        )
    return proto


def _size(path: Path) -> int:
    """The bytes of a plain file. A pipe or a device would be read without an end."""
    denied = InputError(f"{path} cannot be read: permission denied", hint=f"chmod u+r {path}")
    try:
        status = path.stat()
    except PermissionError:
        raise denied from None
    except (OSError, ValueError) as error:
        raise NotFound(f"{path} does not exist", hint="check the spelling of the path") from error
    if stat.S_ISDIR(status.st_mode):
        raise NotAModel(f"{path} is a folder", hint="name the .onnx file inside it")
    if not stat.S_ISREG(status.st_mode):
        raise NotAModel(f"{path} is not a plain file", hint="copy the model to a file first")
    if not os.access(path, os.R_OK, effective_ids=True):
        raise denied
    return status.st_size
