"""The way back through the steps of a pipeline: rows behind a step become the rows before it, as near as the step allows."""

import numpy

from ._columns import TEXT, positions
from ._forest import MISSING

IMPUTERS = ("SimpleImputer", "KNNImputer", "IterativeImputer")


class NoWayBack(Exception):
    """A step cannot be undone."""


def undone(steps, rows, filler):
    """The rows before the steps. NaN stands for any value, which the filler has, and `MISSING` for a missing one."""
    for step in reversed(steps):
        rows, filler = _undo(step, rows, filler), None
    return _filled(rows, filler)


def _filled(rows, filler):
    if filler is None:
        return rows
    filled = numpy.where(numpy.isnan(rows), filler, rows)
    return numpy.where(filled == MISSING, numpy.nan, filled)


def _undo(step, rows, filler):
    name = type(step).__name__
    if isinstance(step, str):  # passthrough
        return _filled(rows, filler)
    if hasattr(step, "steps"):
        inner = [part for _, part in step.steps if part not in (None, "passthrough")]
        return undone(inner, rows, filler)
    if name in UNDO:
        return UNDO[name](step, rows, filler)
    if name in TEXT:
        return _text(step, rows)
    rows = _filled(rows, filler)
    if name in IMPUTERS and rows.shape[1] == step.n_features_in_:
        return rows
    if name in IMPUTERS and getattr(step, "indicator_", None) is not None:
        return _undo_indicator(step, rows)
    if name in IMPUTERS or not hasattr(step, "inverse_transform"):
        raise NoWayBack(f"{name} cannot be undone")
    before = step.inverse_transform(rows.astype(numpy.float64))
    return numpy.asarray(before.toarray() if hasattr(before, "toarray") else before)


def _undo_indicator(step, rows):
    """The columns that an imputer fills, missing where those behind them say so. Columns without any value were left out."""
    flags = step.indicator_.features_
    values, missing = rows[:, : rows.shape[1] - len(flags)], rows[:, rows.shape[1] - len(flags) :]
    if values.shape[1] != step.n_features_in_:
        raise NoWayBack(f"{type(step).__name__} leaves out columns that were always missing")
    values = values.astype(numpy.float64)
    values[:, flags] = numpy.where(missing > 0.5, numpy.nan, values[:, flags])
    return values


def _undo_columns(step, rows, filler):
    """Every transformer of a ColumnTransformer by itself; a column that none of them uses stays zero."""
    names = list(map(str, getattr(step, "feature_names_in_", ())))
    table = numpy.zeros((len(rows), step.n_features_in_), dtype=object)
    for name, transformer, columns in step.transformers_:
        part = step.output_indices_.get(name)
        if part is None or (isinstance(transformer, str) and transformer == "drop"):
            continue
        places = positions(columns, names, step.n_features_in_)
        block = _undo(transformer, rows[:, part], None if filler is None else filler[:, part])
        for index, place in enumerate(places):
            table[:, place] = block[:, index]
    kinds = {type(value) for value in table[0]} if len(table) else set()
    return table if str in kinds else table.astype(numpy.float64)


def _undo_one_hot(step, rows, filler):
    """The category whose column the path asks to be set; else one that it leaves open."""
    random = numpy.random.default_rng(len(rows))
    scores = numpy.where(numpy.isnan(rows), random.random(rows.shape) / 2, numpy.where(rows > 0.5, 1 + rows, -1.0))
    table = numpy.empty((len(rows), len(step.categories_)), dtype=object)
    start = 0
    for column, known in enumerate(step.categories_):
        kept = _kept_categories(step, column, known)
        block = scores[:, start : start + len(kept)]
        start += len(kept)
        best = block.argmax(axis=1) if len(kept) else numpy.zeros(len(rows), int)
        dropped = [value for value in known if value not in set(kept)]
        table[:, column] = [
            kept[place] if len(kept) and (block[row, place] > 0 or not dropped) else dropped[0]
            for row, place in enumerate(best)
        ]
    return table if any(isinstance(value, str) for value in table[0]) else table.astype(numpy.float64)


def _kept_categories(step, column, known):
    """The categories that have a column of their own behind the encoder."""
    if getattr(step, "_infrequent_enabled", False) and step._infrequent_indices[column] is not None:
        raise NoWayBack("OneHotEncoder with infrequent categories")
    drop = getattr(step, "drop_idx_", None)
    leave = None if drop is None else drop[column]
    return [value for place, value in enumerate(known) if leave is None or place != leave]


def _undo_ordinal(step, rows, filler):
    random = numpy.random.default_rng(len(rows))
    table = numpy.empty(rows.shape, dtype=object)
    for column, known in enumerate(step.categories_):
        codes = rows[:, column]
        drawn = random.integers(0, len(known), len(rows))
        last = (
            len(known) if step.handle_unknown == "use_encoded_value" else len(known) - 1
        )  # one more is an unknown one
        places = numpy.where(numpy.isnan(codes), drawn, numpy.clip(numpy.nan_to_num(codes).round(), 0, last))
        values = [*known, "?" if isinstance(known[0], str) else -1.0]
        table[:, column] = [values[int(place)] for place in places]
    return table if any(isinstance(value, str) for value in table[0]) else table.astype(numpy.float64)


def _text(step, rows):
    """A text with every word whose column the path asks to be above zero."""
    words = step.get_feature_names_out()
    counts = numpy.clip(numpy.ceil(numpy.nan_to_num(rows)), 0, 3).astype(int)
    texts = [" ".join(word for word, times in zip(words, row) for _ in range(times)) for row in counts]
    return numpy.array(texts, dtype=object)[:, None]


UNDO = {
    "ColumnTransformer": _undo_columns,
    "OneHotEncoder": _undo_one_hot,
    "OrdinalEncoder": _undo_ordinal,
}
