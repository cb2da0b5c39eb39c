"""A table of named columns: what a CSV or Parquet file or a DataFrame holds, in the precision that it has.

Rows are counted from 1, without a header. A column is asked for the type that an input wants; a `ValueError` names the row that
cannot be had in it. Missing values are NaN where floats are wanted and the empty text where text is; integers and booleans have
no value that means missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.errors import BadData

Array = np.ndarray[Any, Any]
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


@dataclass(frozen=True, eq=False)
class Column:
    """One column: numbers of any type, or text as an array of `object`.

    `missing` marks rows without a value; where a float is missing it is NaN as well. `written` gives the cells of numbers as
    the file has them, so that 007 stays 007 for an input that takes text. `unusable` names a type that is neither.
    """

    name: str
    values: Array
    missing: Array | None = None
    written: Callable[[], Array] | None = None
    unusable: str = ""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def numeric(self) -> bool:
        return not self.unusable and self.values.dtype.kind in "biuf"

    @property
    def textual(self) -> bool:
        return not self.unusable and self.values.dtype.kind == "O"

    def of_type(self, dtype: str) -> Array:
        """The column for an input of this type. Floats keep their own width; integers wanted as floats become float64."""
        if dtype == "string":
            return self._strings()
        if "float" in dtype:
            return self._floats()
        if dtype == "bool":
            return self._booleans()
        if "int" in dtype:
            return self._integers()
        raise ValueError(f"no column can be {dtype}")

    def plain(self) -> Array:
        """The column in its own type; integers among which some are missing become floats."""
        self._refuse_unusable()
        holed = self.missing is not None and self.missing.any()
        return self._floats() if self.numeric and holed else self.values

    def labels(self) -> Array:
        """The column in its own type. A label cannot be missing."""
        self._refuse_unusable()
        self._refuse_missing("a label")
        return self.values

    def _floats(self) -> Array:
        numbers = self._numbers()
        if numbers.dtype.kind == "f":
            return numbers
        wide = numbers.astype(np.float64)
        return wide if self.missing is None else np.where(self.missing, np.nan, wide)

    def _integers(self) -> Array:
        numbers = self._numbers()
        self._refuse_missing("an integer")
        if numbers.dtype.kind != "f":
            return numbers
        whole = np.isfinite(numbers) & (numbers == np.trunc(numbers)) & (np.abs(numbers) < 2.0**63)
        if not whole.all():
            row = int(np.argmin(whole))
            raise ValueError(f"row {row + 1} holds {numbers[row]}, which is no integer")
        return numbers.astype(np.int64)

    def _booleans(self) -> Array:
        integers = self._integers()
        outside = (integers != 0) & (integers != 1)
        if outside.any():
            row = int(np.argmax(outside))
            raise ValueError(f"row {row + 1} holds {integers[row]}, which is neither true nor false")
        return integers.astype(bool)

    def _strings(self) -> Array:
        self._refuse_unusable()
        if self.textual:
            return self.values
        if self.written is None:
            raise ValueError(f"holds {self.values.dtype}, and the model takes text; make it text first: astype(str)")
        return self.written()

    def _numbers(self) -> Array:
        self._refuse_unusable()
        if self.textual:
            row, text = next((row, text) for row, text in enumerate(self.values) if not is_number(text))
            raise ValueError(f"row {row + 1} holds {_shown(text)}, which is no number{_reason(text)}")
        return self.values

    def _refuse_unusable(self) -> None:
        if self.unusable:
            raise ValueError(f"holds {self.unusable}, which is neither numbers nor text")

    def _refuse_missing(self, wanted: str) -> None:
        if self.missing is not None and self.missing.any():
            raise ValueError(f"row {int(np.argmax(self.missing)) + 1} is empty, and {wanted} cannot be missing")


class Frame(Mapping[str, Column]):
    """Columns of one length by name, in the order of the table."""

    def __init__(self, columns: Sequence[Column], *, where: str) -> None:
        names = [column.name for column in columns]
        refuse_duplicates(names, where)
        self._columns = dict(zip(names, columns, strict=True))

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def rows(self) -> int:
        return len(next(iter(self._columns.values()), ()))


def refuse_duplicates(names: Sequence[str], where: str) -> None:
    """Raises `BadData` where two columns have one name: nobody could say which is meant."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadData(
            f"{where} has several columns called {', '.join(map(repr, twice[:5]))}",
            hint="give every column its own name",
        )


def is_number(text: str) -> bool:
    """Whether the text is a number as every reader of a file would read it: Python alone also takes 1_000 and other digits."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text and text.isascii()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _reason(text: str) -> str:
    """What the text may be instead of a number."""
    if text.startswith(("=", "@")):
        return ": a formula is not computed here; save its value"
    if _DECIMAL_COMMA.fullmatch(text.strip()):
        return ": write a point instead of the decimal comma"
    return ""
