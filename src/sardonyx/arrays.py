"""Arrays in files: .npy, .npz, .safetensors and .parquet, known by their bytes, and .csv, known by its name.

They are read without pickle and no more than is asked for. Tables are read whole, as columns.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from sardonyx import csv_file, data_frame, machine
from sardonyx.errors import BadData, NotFound
from sardonyx.files import replacing
from sardonyx.frame import Frame
from sardonyx.signature import Array, Arrays

Kind = Literal["npy", "npz", "safetensors", "parquet", "csv"]

KINDS = ".npz, .npy, .safetensors, .csv or .parquet"

# The name of an array that its file leaves nameless: a .npy, or what `np.savez(file, x)` writes.
NAMELESS = "arr_0"

_UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError)


class Rows(Protocol):
    """An array, or a part of a file that gives arrays when it is sliced."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, part: Any, /) -> Any: ...


def kind(path: Path) -> Kind | None:
    """Which kind of array file this is by its first bytes; None for anything else."""
    with path.open("rb") as file:
        head = file.read(9)
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "npz"
    # A safetensors file starts with the length of the JSON object that follows.
    if head[8:] == b"{" and int.from_bytes(head[:8], "little") + 8 <= path.stat().st_size:
        return "safetensors"
    if head.startswith(data_frame.MAGIC):
        return "parquet"
    return "csv" if path.suffix.lower() in csv_file.SUFFIXES else None


def open_arrays(path: str | Path) -> dict[str, Rows] | Frame:
    """Every array of the file by name, or the columns of a table.

    A .npy is mapped, a .safetensors is read slice by slice, an .npz and a table are read whole.
    """
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}", hint="name a file of arrays")
    with _named(path):
        found = kind(path)
        if found is None:
            raise ValueError("its bytes are none of these kinds")
        return _READERS[found](path)


def read(path: str | Path) -> Arrays:
    """Every array of the file by name, in memory; of a table, every column of numbers or text."""
    found = open_arrays(path)
    if isinstance(found, Frame):
        return {name: column.plain() for name, column in found.items() if not column.unusable}
    return {name: np.asarray(rows[...]) for name, rows in found.items()}


def write_npz(path: str | Path, arrays: Mapping[str, Array]) -> None:
    """Replaces the file with an .npz whose members may have any name; equal arrays give equal bytes.

    Strings are written as numpy's own text type, and types that .npy does not know (bfloat16, int4) as the next wider one.
    """
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            # np.savez would take a name such as `file` for its own argument.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _storable(array), allow_pickle=False)


class _Slices:
    """One tensor of a .safetensors file; only the rows asked for are read."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name
        self.shape: tuple[int, ...] = tuple(file.get_slice(name).get_shape())

    def __getitem__(self, part: Any) -> Any:
        if part is Ellipsis or not self.shape:
            return self._file.get_tensor(self._name)[part]
        return self._file.get_slice(self._name)[part]


def _npy(path: Path) -> dict[str, Rows]:
    try:
        return {NAMELESS: np.load(path, mmap_mode="r", allow_pickle=False)}
    except ValueError:  # nothing to map in an array without elements; anything else fails again
        return {NAMELESS: np.load(path, allow_pickle=False)}


def _npz(path: Path) -> dict[str, Rows]:
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > machine.memory_bytes():
        raise ValueError(f"it unpacks to {unpacked:,} bytes, more than this machine's memory")
    with np.load(path, allow_pickle=False) as archive:
        loaded = {name: archive[name] for name in archive.files}
    strange = [name for name, array in loaded.items() if not isinstance(array, np.ndarray)]
    if strange:
        raise ValueError(f"its member {strange[0]} is not an array")
    return loaded


def _safetensors(path: Path) -> dict[str, Rows]:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="np")
        return {name: _Slices(file, name) for name in file.keys()}  # noqa: SIM118  it is no dict
    except SafetensorError as error:
        raise ValueError(str(error)) from error


_READERS: dict[Kind, Callable[[Path], dict[str, Rows] | Frame]] = {
    "npy": _npy,
    "npz": _npz,
    "safetensors": _safetensors,
    "parquet": data_frame.read_parquet,
    "csv": csv_file.read,
}


def _storable(array: Array) -> Array:
    if array.dtype.hasobject:
        return array.astype(str)
    if array.dtype.isbuiltin == 1 or array.dtype.kind in "US":
        return array
    return array.astype(
        np.float32 if "float" in array.dtype.name else np.int8 if "uint" not in array.dtype.name else np.uint8
    )


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        pickled = "allow_pickle" in str(error)
        reason = (
            "it holds Python objects, which only pickle could read" if pickled else str(error) or type(error).__name__
        )
        hint = (
            "save strings with dtype=str and numbers with a numeric dtype"
            if pickled
            else "write the file again with numpy, safetensors or pandas"
        )
        raise BadData(f"{path} cannot be read as {KINDS}: {reason}", hint=hint) from error
