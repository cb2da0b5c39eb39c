"""What lies in a bundle, and bundle.json: the record that names every file with its hash and that proves itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sardonyx import machine
from sardonyx.below import Folder, is_plain_name
from sardonyx.bundle_model import MODEL as MODEL
from sardonyx.bundle_model import RECORD as RECORD
from sardonyx.bundle_model import RECORD_AT_MOST
from sardonyx.errors import InputError, NotFound, UnsafePath
from sardonyx.files import sha256, write_text
from sardonyx.form import misfit
from sardonyx.report import human_bytes

FORMAT = 1
FLOAT, OPTIMIZED, REPORT, PAGE = "float.onnx", "optimized.onnx", "report.json", "report.html"

# The report of a graph of ten thousand nodes takes some megabytes; JSON takes twenty times its size in memory.
REPORT_AT_MOST = 64 << 20
# Nor does anybody ship more than this; a sparse file may say so without taking any room, and would be hashed for days.
FILES_AT_MOST = 1 << 40
_MODELS = 4
_FORM = {
    "format": int, "digest": str, "files": {str: str}, "sizes": {str: int}, "signature": dict, "provenance": [dict],
    "tolerances": dict, "metrics": dict, "versions": {str: str},
    "machine": {"cpu?": (str, None), "features?": ({str: bool}, None), "threads?": (int, None)},
}  # fmt: skip


class Tampered(Exception):
    """A file of the bundle is not what was written. Carries the file's name."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.file, self.problem = file, problem


def canonical(record: Mapping[str, Any]) -> str:
    """The one way in which a record is written: any other spelling of the same values is not ours."""
    return json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n"


def digest(record: Mapping[str, Any]) -> str:
    """The hash of everything in the record but its own digest."""
    rest = {name: value for name, value in record.items() if name != "digest"}
    return hashlib.sha256(canonical(rest).encode()).hexdigest()


def seal(folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Writes bundle.json: the facts, every file of the folder with its hash and size, and the digest of it all."""
    files = [path for path in sorted(folder.iterdir()) if path.name != RECORD]
    record = {
        "format": FORMAT,
        **facts,
        "files": {path.name: sha256(path) for path in files},
        "sizes": {path.name: path.stat().st_size for path in files},
    }
    record["digest"] = digest(record)
    write_text(folder / RECORD, canonical(record))
    return record


def read_record(folder: Path) -> dict[str, Any]:
    """The record, if every byte of it is as it was written; else `Tampered`. A folder without one is no bundle."""
    if not folder.is_dir():
        raise NotFound(f"{folder} does not exist", hint="give the folder that sardonyx ship wrote")
    try:
        with Folder(folder) as bundle:
            data = bundle.read(RECORD, at_most=RECORD_AT_MOST)
    except NotFound as error:
        raise InputError(f"{folder} is not a bundle: it has no {RECORD}", hint="sardonyx ship makes one") from error
    except UnsafePath as error:
        raise Tampered(RECORD, error.problem) from error
    try:
        record = json.loads(data)
        whole = isinstance(record, dict) and canonical(record).encode() == data
    except (ValueError, RecursionError) as error:
        raise Tampered(RECORD, "it is not the JSON that was written") from error
    if not whole or record.get("digest") != digest(record):
        raise Tampered(RECORD, "its bytes are not those that were written")
    if isinstance(record.get("format"), int) and record["format"] > FORMAT:
        raise InputError(
            f"{folder / RECORD} has format {record['format']}, and this Sardonyx reads up to {FORMAT}",
            hint="use a newer Sardonyx",
        )
    _must_be_whole(record)
    return record


def must_be_bearable(folder: Path, record: Mapping[str, Any]) -> None:
    """Raises `InputError` for a bundle that says it is larger than a machine like this could load, before it is hashed."""
    said, most = sum(record["sizes"].values()), bytes_at_most()
    if said > most:
        raise InputError(
            f"{folder} says that its files have {human_bytes(said)}, and this machine takes up to {human_bytes(most)}",
            hint="look at the sizes in bundle.json; a larger bundle needs a machine with more memory",
        )


def bytes_at_most() -> int:
    """The most bytes that are hashed: four models that fill the memory. A sparse file says any size and takes no room."""
    return min(FILES_AT_MOST, _MODELS * machine.memory_bytes())


def file_problem(
    bundle: Folder, name: str, record: Mapping[str, Any], advance: Callable[[int], Any] | None = None
) -> str:
    """What is wrong with a file that the record names; empty if nothing is. Reads it only if it has the recorded size."""
    if not is_plain_name(name):
        return "its name leads out of the bundle"
    try:
        found = bundle.sha256(name, size=record["sizes"][name], advance=advance)
    except NotFound:
        return "it is missing"
    except UnsafePath as error:
        return error.problem
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if found == record["files"][name] else "its bytes are not those that were written"


def _must_be_whole(record: Mapping[str, Any]) -> None:
    found = misfit(record, _FORM)
    if found:
        raise Tampered(RECORD, f"its {found}")
    sizes = record["sizes"].values()
    numbers = all(size >= 0 for size in sizes) and sum(sizes) <= FILES_AT_MOST
    if not numbers or set(record["files"]) != set(record["sizes"]) or MODEL not in record["files"]:
        raise Tampered(RECORD, "its list of files is not whole")
