"""The model in a bundle's folder, wherever a verb takes the folder for the model."""

from __future__ import annotations

import json
from pathlib import Path

from sardonyx.errors import BrokenModel, InputError, NotFound
from sardonyx.files import sha256

MODEL, RECORD = "model.onnx", "bundle.json"


def is_bundle(source: object) -> bool:
    """Whether this is the path of a folder that `sardonyx ship` wrote."""
    return isinstance(source, str | Path) and (Path(source) / RECORD).is_file()


def model_in(folder: str | Path) -> Path:
    """The bundle's model, if its bytes are those that the bundle was made with."""
    folder = Path(folder)
    path = folder / MODEL
    try:
        files = json.loads((folder / RECORD).read_text())["files"]
        expected = files[MODEL]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / RECORD} is not the record of a bundle", hint="ship the model again") from error
    if not path.is_file():
        raise NotFound(f"{path} is not there", hint="ship the model again")
    if sha256(path) != expected:
        raise BrokenModel(f"{path} is not the file that the bundle was made with", hint="ship the model again")
    return path
