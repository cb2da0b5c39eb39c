"""DataFrames of pandas and polars, Arrow tables and Parquet files as columns, by way of Arrow.

Categories become the values that they stand for, and every float keeps its width. Dates, lists and other types stay in the frame
as columns that no input takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import machine, registry
from sardonyx.errors import BadData, UsageError
from sardonyx.frame import Column, Frame, refuse_duplicates

# The first bytes of a Parquet file.
MAGIC = b"PAR1"
# Rows that are unpacked at a time.
_ROWS = 4096
_TABLES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}
_SERIES = {("pandas", "Series"), ("polars", "Series")}
_LAZY = {("polars", "LazyFrame")}


def is_frame(value: Any) -> bool:
    """Whether the object is a DataFrame, a Series or an Arrow table, known without importing any of their libraries."""
    return bool(_kinds(value) & (_TABLES | _SERIES | _LAZY))


def of_object(value: Any, where: str = "the DataFrame") -> Frame:
    """The columns of such an object."""
    registry.need("data", for_what=where)
    kinds = _kinds(value)
    if kinds & _LAZY:
        raise UsageError("a LazyFrame holds no rows yet", hint="call its collect()")
    pairs = list(_series(value, kinds))
    refuse_duplicates([name for name, _ in pairs], where)
    return Frame([_converted(name, values, where) for name, values in pairs], where=where)


def read_parquet(path: Path) -> Frame:
    """The columns of a Parquet file. One that unpacks beyond the memory of this machine is refused."""
    registry.need("data", for_what=f"the Parquet file {path}")
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        known = file.metadata
        unpacked = sum(known.row_group(index).total_byte_size for index in range(known.num_row_groups))
        most = machine.memory_bytes() // 2
        if max(unpacked, known.num_rows * known.num_columns) > most:
            raise ValueError(f"it unpacks to {known.num_rows:,} rows, more than this machine's memory holds")
        refuse_duplicates(file.schema_arrow.names, str(path))
        return of_object(_table(file, most), str(path))


def _table(file: Any, most: int) -> Any:
    """All rows, read in batches: a dictionary may say one long text a million times in a few bytes."""
    import pyarrow

    batches, size = [], 0
    for batch in file.iter_batches(batch_size=_ROWS):
        size += batch.nbytes
        if size > most:
            raise ValueError(f"its rows take more than {most:,} bytes of this machine's memory")
        batches.append(batch)
    return pyarrow.Table.from_batches(batches, schema=None if batches else file.schema_arrow)


def _kinds(value: Any) -> set[tuple[str, str]]:
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}


def _series(value: Any, kinds: set[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    if kinds & _SERIES:
        yield str(value.name or ""), value
    elif ("pandas", "DataFrame") in kinds:
        yield from ((str(name), values) for name, values in value.items())
    elif ("polars", "DataFrame") in kinds:
        yield from ((values.name, values) for values in value.iter_columns())
    else:
        yield from zip(value.column_names, value.columns, strict=True)


def _converted(name: str, values: Any, where: str) -> Column:
    import pyarrow

    try:
        if hasattr(values, "to_arrow"):
            values = values.to_arrow()
        elif not isinstance(values, pyarrow.ChunkedArray):
            values = pyarrow.Array.from_pandas(values)
        return _column(name, values)
    except (pyarrow.ArrowException, TypeError) as error:
        raise BadData(
            f"{where}: column '{name}' cannot be read: {str(error).splitlines()[0]}",
            hint="give every column one type, numbers or text",
        ) from error


def _column(name: str, values: Any) -> Column:
    """Numbers keep their type, and what is missing among them is marked; text becomes strings, with '' for missing ones."""
    from pyarrow import compute, float64, types

    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    missing = np.asarray(values.is_null(), bool)
    if types.is_null(kind):
        return Column(name, np.full(len(values), np.nan), missing)
    if types.is_decimal(kind):
        return Column(name, np.asarray(values.cast(float64())), missing)
    if types.is_floating(kind):
        return Column(name, np.asarray(values), missing)
    if types.is_integer(kind) or types.is_boolean(kind):
        return Column(name, np.asarray(compute.fill_null(values, False if types.is_boolean(kind) else 0)), missing)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Column(name, np.array([text or "" for text in values.to_pylist()], object), missing)
    return Column(name, np.zeros(len(values), object), missing, unusable=str(kind))
