"""What lies in a bundle, and bundle.json: the record that names every file with its hash and that proves itself."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sardonyx.errors import InputError, NotFound
from sardonyx.files import sha256, write_text

FORMAT = 1
MODEL, FLOAT, OPTIMIZED = "model.onnx", "float.onnx", "optimized.onnx"
RECORD, REPORT, PAGE = "bundle.json", "report.json", "report.html"

# A record of a graph of ten thousand nodes takes a few megabytes; a larger one is somebody's attempt on our memory.
RECORD_AT_MOST = 64 << 20
# Nor does anybody ship more than this; a sparse file may say so without taking any room, and would be hashed for days.
FILES_AT_MOST = 1 << 40
_NEEDED: dict[str, type] = {
    "format": int, "files": dict, "sizes": dict, "signature": dict, "provenance": list, "tolerances": dict, "metrics": dict,
    "versions": dict, "machine": dict,
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
    path = folder / RECORD
    if not folder.is_dir():
        raise NotFound(f"{folder} does not exist", hint="give the folder that sardonyx ship wrote")
    try:
        status = path.lstat()
    except OSError as error:
        raise InputError(f"{folder} is not a bundle: it has no {RECORD}", hint="sardonyx ship makes one") from error
    problem = plain_file_problem(status)
    if problem or status.st_size > RECORD_AT_MOST:
        raise Tampered(RECORD, problem or f"it has {status.st_size} bytes")
    data = path.read_bytes()
    try:
        record = json.loads(data)
        whole = isinstance(record, dict) and canonical(record).encode() == data
    except (ValueError, RecursionError) as error:
        raise Tampered(RECORD, "it is not the JSON that was written") from error
    if not whole or record.get("digest") != digest(record):
        raise Tampered(RECORD, "its bytes are not those that were written")
    if isinstance(record.get("format"), int) and record["format"] > FORMAT:
        raise InputError(
            f"{path} has format {record['format']}, and this Sardonyx reads up to {FORMAT}", hint="use a newer Sardonyx"
        )
    _must_be_whole(record)
    return record


def file_problem(folder: Path, name: str, record: Mapping[str, Any]) -> str:
    """What is wrong with a file that the record names; empty if nothing is."""
    if not is_plain_name(name):
        return "its name leads out of the bundle"
    path = folder / name
    try:
        status = path.lstat()
    except FileNotFoundError:
        return "it is missing"
    except (OSError, ValueError) as error:
        return f"it cannot be read: {error}"
    problem = plain_file_problem(status)
    if problem:
        return problem
    if status.st_size != record["sizes"].get(name):
        return f"it has {status.st_size} bytes instead of {record['sizes'].get(name)}"
    return "" if sha256(path) == record["files"][name] else "its bytes are not those that were written"


def plain_file_problem(status: Any) -> str:
    """Why a file may show other bytes than its own, or block its reader; empty for a plain one."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a link"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a plain file"
    return "it is a link to a file that has other names too" if status.st_nlink > 1 else ""


def is_plain_name(name: str) -> bool:
    """Whether the name is that of a file in the folder itself, on any system."""
    return bool(name) and name not in (".", "..") and not set(name) & set("/\\:\0") and len(name) < 256


def _must_be_whole(record: Mapping[str, Any]) -> None:
    for name, kind in _NEEDED.items():
        if type(record.get(name)) is not kind:
            raise Tampered(RECORD, f"its '{name}' is missing or not what it should be")
    texts = all(isinstance(value, str) for value in record["files"].values())
    sizes = record["sizes"].values()
    numbers = all(type(size) is int and size >= 0 for size in sizes) and sum(sizes) <= FILES_AT_MOST
    if not (texts and numbers) or set(record["files"]) != set(record["sizes"]) or MODEL not in record["files"]:
        raise Tampered(RECORD, "its list of files is not whole")
