"""Arrays in files: .npy, .npz, .safetensors and .parquet, known by their bytes, and .csv, known by its name.

They are read without pickle and no more than is asked for. Tables are read whole, as columns.
"""

from __future__ import annotations

import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from sardonyx import csv_file, data_frame, machine
from sardonyx.errors import BadData, NotFound, SardonyxError
from sardonyx.files import replacing
from sardonyx.frame import Frame
from sardonyx.signature import Array, Arrays

Kind = Literal["npy", "npz", "safetensors", "parquet", "csv"]

KINDS = ".npz, .npy, .safetensors, .csv or .parquet"

# The name of an array that its file leaves nameless: a .npy, or what `np.savez(file, x)` writes.
NAMELESS = "arr_0"

# What the libraries raise on a file that is damaged, or that somebody made to be so.
_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError, MemoryError, struct.error,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Bytes that are unpacked at a time, and how many empty examples are worth a walk.
_PIECE, _EMPTY_AT_MOST = 1 << 24, 1 << 20
# The third version is for types with named fields, which no input takes.
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


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
    with _named(Path(path)):
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

    def __init__(self, file: Any, name: str, path: Path) -> None:
        self._file, self._name, self._path = file, name, path
        self.shape: tuple[int, ...] = tuple(file.get_slice(name).get_shape())

    def __getitem__(self, part: Any) -> Any:
        with _named(self._path):
            if part is Ellipsis or not self.shape:
                return self._file.get_tensor(self._name)[part]
            return self._file.get_slice(self._name)[part]


def _npy(path: Path) -> dict[str, Rows]:
    with path.open("rb") as file:
        shape, order, dtype = _header(file, path.stat().st_size)
        if not math.prod(shape):  # there is nothing to map
            return {NAMELESS: np.empty(shape, dtype, order)}
        return {NAMELESS: np.memmap(file, dtype, "r", file.tell(), shape, order)}


def _npz(path: Path) -> dict[str, Rows]:
    with zipfile.ZipFile(path) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        unpacked, most = sum(member.file_size for member in archive.infolist()), machine.memory_bytes() // 2
        if unpacked > most:
            raise ValueError(f"it unpacks to {unpacked:,} bytes, more than half of this machine's memory")
        return {name: _member(archive, member) for name, member in members.items()}


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """An array of the archive. Memory is taken only for what the archive itself says that it unpacks to."""
    if not member.filename.endswith(".npy") or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"its member {member.filename} is not an array")
    with archive.open(member) as file:
        shape, order, dtype = _header(file, member.file_size)
        wanted = math.prod(shape) * dtype.itemsize
        data = bytearray()
        while len(data) < wanted and (piece := file.read(min(_PIECE, wanted - len(data)))):
            data += piece
    if len(data) < wanted:
        raise ValueError(f"its member {member.filename} ends too early")
    return np.frombuffer(data, dtype, math.prod(shape)).reshape(shape, order=order)


def _header(file: Any, size: int) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Shape, order and type of a .npy of `size` bytes, which must have room for them. The file stands at the values."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(file)
            shape, in_columns, dtype = _HEADERS[version](file)
    except Exception as error:  # numpy reads it as Python, which may raise anything
        raise ValueError(
            f"its header cannot be read: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from error
    if dtype.hasobject:
        raise ValueError("allow_pickle is off")
    elements = math.prod(shape)
    if any(type(length) is not int or length < 0 for length in shape) or elements * dtype.itemsize > size - file.tell():
        raise ValueError(f"its header says {dtype}{list(shape)}, and it has {size - file.tell()} bytes of values")
    # Sizes that cost no bytes would cost time: examples without a value, or values of no size.
    if math.prod(filter(None, shape)) > _EMPTY_AT_MOST and not elements * dtype.itemsize:
        raise ValueError(f"its header says {dtype}{list(shape)}, which holds nothing")
    return shape, "F" if in_columns else "C", dtype


def _safetensors(path: Path) -> dict[str, Rows]:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="np")
        return {name: _Slices(file, name, path) for name in file.keys()}  # noqa: SIM118  it is no dict
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
    except SardonyxError:
        raise
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
