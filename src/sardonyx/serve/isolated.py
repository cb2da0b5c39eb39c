"""The process of one model: loads it, and answers runs on stdin and stdout until stdin ends."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

import numpy as np

from sardonyx.errors import SardonyxError
from sardonyx.run.session import Session, Settings
from sardonyx.serve.isolate import read, write
from sardonyx.serve.launch import end_with_parent
from sardonyx.serve.tensors import from_bytes
from sardonyx.signature import Array

_REQUEST_BYTES = 1 << 40


def main() -> None:
    end_with_parent()
    source, to = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    words, _ = read(source, 0)
    try:
        session = Session(words["path"], Settings(**words["settings"]))
    except SardonyxError as error:
        write(to, {"error": error.message})
        return
    write(to, {})
    while True:
        try:
            request, data = read(source, _REQUEST_BYTES)
        except EOFError:
            return
        _answer(session, request, data, to)


def _answer(session: Session, request: dict[str, Any], data: memoryview, to: IO[bytes]) -> None:
    names = session.signature.input_names
    inputs = [_tensor(place, data) for place in request["tensors"]]
    try:
        found = session.run_some(request["outputs"], dict(zip(names, inputs, strict=True)))
    except SardonyxError as error:
        write(to, {"error": error.message})
    else:
        write(to, {}, found)


def _tensor(place: Any, data: memoryview) -> Array:
    shape, kind, start, end = place
    part = data[start:end]
    return from_bytes(part, "BYTES", shape, "x") if kind == "object" else np.frombuffer(part, kind).reshape(shape)


if __name__ == "__main__":
    main()
