"""The model in a bundle's folder, wherever a verb takes the folder for the model."""

from __future__ import annotations

import json
from pathlib import Path

from sardonyx import external
from sardonyx.below import Folder
from sardonyx.errors import BrokenModel, InputError, NotFound
from sardonyx.form import misfit
from sardonyx.proto import read_proto

MODEL, RECORD = "model.onnx", "bundle.json"
# A record of a graph of ten thousand nodes takes a few megabytes; a larger one is somebody's attempt on our memory.
RECORD_AT_MOST = 16 << 20


def is_bundle(source: object) -> bool:
    """Whether this is the path of a folder that `sardonyx ship` wrote."""
    return isinstance(source, str | Path) and (Path(source) / RECORD).is_file()


def model_in(folder: str | Path) -> Path:
    """The bundle's model, if its bytes and those of its weights outside are what the bundle was made with."""
    folder = Path(folder)
    hashes = hashes_in(folder)
    path = folder / MODEL
    if MODEL not in hashes:
        raise InputError(f"{folder / RECORD} names no {MODEL}", hint="ship the model again")
    with Folder(folder) as bundle:
        must_be_as_written(bundle, MODEL, hashes)
        for name in sorted({entry.location for entry in external.entries(read_proto(path))}):
            must_be_as_written(bundle, name, hashes)
    return path


def hashes_in(folder: Path) -> dict[str, str]:
    """Every file that the bundle's record names, with its hash."""
    try:
        with Folder(folder) as bundle:
            record = json.loads(bundle.read(RECORD, at_most=RECORD_AT_MOST))
        wrong = misfit(record, {"files": {str: str}})
    except NotFound as error:
        raise NotFound(f"{folder} is not a bundle: it has no {RECORD}", hint="ship the model again") from error
    except (ValueError, RecursionError) as error:
        wrong = str(error) or "it is not JSON"
    if wrong:
        raise InputError(f"{folder / RECORD} is not the record of a bundle: {wrong}", hint="ship the model again")
    return dict(record["files"])


def must_be_as_written(bundle: Folder, name: str, hashes: dict[str, str]) -> None:
    """Raises `BrokenModel` where a file is not the one that the bundle was made with."""
    path = bundle.path / name
    if name not in hashes:
        raise BrokenModel(f"{path} is no file of the bundle", hint="ship the model again")
    if bundle.sha256(name) != hashes[name]:
        raise BrokenModel(f"{path} is not the file that the bundle was made with", hint="ship the model again")
