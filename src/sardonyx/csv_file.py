"""CSV files as columns, read by the standard library.

pandas is not asked: whoever has a CSV file would have to install it first, and it takes the words NA and None in text for missing
values. Here `float` reads every number exactly, a ragged line is named by its number, and a column holds numbers only if all of
its cells are numbers.

The first line has the names; a column without one, as pandas writes its index, is left out. Cells are separated by commas,
semicolons or tabs, whichever the first line has most of. The text is UTF-8, with or without a byte order mark.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from sardonyx import machine
from sardonyx.errors import BadData
from sardonyx.frame import Array, Column, Frame, is_number, refuse_duplicates

SUFFIXES = (".csv", ".tsv")
# Words for a missing number, in any case. In a column of text they are text: there only an empty cell is missing.
MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "<na>"))
# Rows that are taken apart at a time, and bytes of the file that are looked at to find out how it is written.
CHUNK, HEAD = 4096, 1 << 16
# A number with the mark of a missing one, while the parts of a column are put together.
CELL_BYTES = 2 * (8 + 1)
_TRUTH = {"true": True, "false": False}
_DIGITS = frozenset("0123456789+- ")


def read(path: Path) -> Frame:
    """The columns of the file, or `BadData` that says which line is wrong and how."""
    with _named(path):
        _refuse_other_bytes(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.read(HEAD)
        separator = _separator(head)
        names = _header(path, separator)
        _refuse_size(path, head, len(names))
        parts: list[list[_Part]] = [[] for _ in names]
        rows = _rows(path, separator, len(names))
        while chunk := list(islice(rows, CHUNK)):
            for index, cells in enumerate(zip(*chunk, strict=True)):
                parts[index].append(_part(cells))
        columns = [
            _column(name, parts[index], partial(_texts, path, separator, len(names), index))
            for index, name in enumerate(names)
            if name
        ]
    return Frame(columns, where=str(path))


@dataclass(frozen=True)
class _Part:
    """Some cells of a column, of the plainest kind that all of them have: empty, bool, int, float or text."""

    kind: str
    values: Array
    missing: Array


def _part(cells: Sequence[str]) -> _Part:
    # Python also reads 1_000, and the digits of other scripts, which other readers of the file take for text.
    whole = "".join(cells)
    if whole.isascii() and "_" not in whole:
        found = _all_numbers(cells, whole) or _some_missing([cell.strip().lower() for cell in cells])
        if found is not None:
            return found
    return _Part("text", np.array(cells, object), np.fromiter((not cell for cell in cells), bool, len(cells)))


def _all_numbers(cells: Sequence[str], whole: str) -> _Part | None:
    """The usual case, and ten times as fast as the other: nothing is missing."""
    try:
        if _DIGITS.issuperset(whole):
            integers = np.array(list(map(int, cells)), np.int64)
            return _Part("int", integers, np.zeros(len(cells), bool))
        floats = np.array(list(map(float, cells)))
        return _Part("float", floats, np.isnan(floats))
    except (ValueError, OverflowError):
        return None


def _some_missing(words: Sequence[str]) -> _Part | None:
    """Numbers or booleans with missing ones between them; None where a word is neither."""
    missing = np.fromiter((word in MISSING for word in words), bool, len(words))
    present = [word for word in words if word not in MISSING]
    if not present:
        return _Part("empty", np.zeros(len(words), bool), missing)
    if all(word in _TRUTH for word in present):
        return _Part("bool", np.array([_TRUTH.get(word, False) for word in words]), missing)
    for kind, number in (("int", int), ("float", float)):
        try:
            numbers = np.array(list(map(number, present)), f"{kind}64")
        except (ValueError, OverflowError):
            continue
        values = np.zeros(len(words), numbers.dtype)
        values[~missing] = numbers
        return _Part(kind, values, missing)
    return None


def _column(name: str, parts: Sequence[_Part], texts: Callable[[], Array]) -> Column:
    """The column of all parts; `texts` reads its cells once more, for where it is text though some parts look like numbers."""
    kinds = {part.kind for part in parts} - {"empty"}
    missing = np.concatenate([np.zeros(0, bool), *(part.missing for part in parts)])
    if kinds in ({"bool"}, {"int"}):
        return Column(name, np.concatenate([part.values for part in parts]), missing, texts)
    if kinds <= {"int", "float"}:
        floats = (np.where(part.missing, np.nan, part.values.astype(np.float64)) for part in parts)
        return Column(name, np.concatenate([np.zeros(0), *floats]), missing, texts)
    cells = np.concatenate([part.values for part in parts]) if {part.kind for part in parts} == {"text"} else texts()
    return Column(name, cells, cells == "")


def _texts(path: Path, separator: str, width: int, index: int) -> Array:
    """The cells of one column as the file has them."""
    with _named(path):
        return np.array([row[index] for row in _rows(path, separator, width)], object)


def _rows(path: Path, separator: str, width: int | None = None) -> Iterator[list[str]]:
    """The lines below the first, or all of them where no width is asked for. Lines without any cell are passed over."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        try:
            if width is not None:
                next(reader)
            for row in reader:
                if row and width is not None and len(row) != width:
                    raise BadData(
                        f"{path}, line {reader.line_num}, has {len(row)} cells, and the first line has {width}",
                        hint=f"give every line {width} cells, and put text that holds '{separator}' into quotes",
                    )
                if row:
                    yield row
        except csv.Error as error:
            raise BadData(
                f"{path}, line {reader.line_num}: {error}", hint="put text that holds quotes or line ends into quotes"
            ) from error


def _header(path: Path, separator: str) -> list[str]:
    names = [name.strip() for name in next(_rows(path, separator), [])]
    if not any(names):
        raise BadData(f"{path} has no line with the names of its columns", hint="name the columns in the first line")
    if all(map(is_number, names)) and names != [str(index) for index in range(len(names))]:
        raise BadData(
            f"the first line of {path} holds numbers, not the names of columns",
            hint="put a line with names above it, or save the numbers as .npy",
        )
    refuse_duplicates([name for name in names if name], str(path))
    return names


def _separator(head: str) -> str:
    line = re.sub(r'"[^"]*"', "", head).partition("\n")[0]
    return max(",;\t", key=line.count)


def _refuse_other_bytes(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.strip():
        raise BadData(f"{path} is empty", hint="write the file again")
    kind = "UTF-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "binary data" if b"\0" in head else ""
    if kind:
        raise BadData(f"{path} holds {kind}, and CSV is text in UTF-8", hint="save it again as CSV in UTF-8")


def _refuse_size(path: Path, head: str, width: int) -> None:
    """Raises `BadData` where the cells, counted by the first lines, would not fit into memory."""
    lines = max(1, head.count("\n"))
    cells = path.stat().st_size / max(1, len(head)) * lines * width
    if cells * CELL_BYTES > machine.memory_bytes():
        raise BadData(
            f"{path} has about {cells:,.0f} cells, more than this machine's memory holds",
            hint="take fewer lines, or save it as .npy or .safetensors, which are read part by part",
        )


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise BadData(
            f"{path} is not UTF-8: the byte {error.object[error.start]:#04x} is no part of a letter",
            hint="save it again as CSV in UTF-8",
        ) from error
