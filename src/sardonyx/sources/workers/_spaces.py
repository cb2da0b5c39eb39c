"""Where trees stand inside an estimator: behind which steps, and how to go through these steps and back."""

import warnings

import numpy

from ._columns import TEXT, positions, table_of
from ._forest import MISSING, cover, edges, forest_of_ensemble, forest_of_histograms, forest_of_trees

ROWS = 2000  # at most, for the leaves and again for the splits
CELLS = 300_000  # numbers in them at most: a description is sent as text
IMPUTERS = ("SimpleImputer", "KNNImputer", "IterativeImputer")


class NoWayBack(Exception):
    """A step cannot be undone."""


class Table:
    """Rows as the estimator takes them: one column per feature, numbers or strings."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def take(self, rows):
        return Table(self.values[rows])

    def first_change(self, other):
        """For every row the column that differs most from another table's; -1 where no number does."""
        change = numpy.zeros(self.values.shape)
        for column in range(self.values.shape[1]):
            one, two = self.values[:, column], other.values[:, column]
            if not any(isinstance(value, str) for value in (*one[:1], *two[:1])):
                one, two = one.astype(float), two.astype(float)
                change[:, column] = numpy.nan_to_num(numpy.abs(one - two) / (1 + numpy.abs(one)))
        return numpy.where(change.any(axis=1), change.argmax(axis=1), -1)


class Chosen:
    """The step of an ensemble whose members see some of the columns."""

    def __init__(self, columns, width):
        self.columns, self.n_features_in_ = numpy.asarray(columns), width

    def transform(self, table):
        return numpy.asarray(table)[:, self.columns]

    def inverse_transform(self, rows):
        table = numpy.zeros((len(rows), self.n_features_in_))
        table[:, self.columns] = rows
        return table


class Coded:
    """The step of a booster that makes codes of the categories of a frame."""

    def __init__(self, words, width):
        self.words, self.n_features_in_ = words, width

    def transform(self, frame):
        codes = numpy.empty((len(frame), self.n_features_in_))
        for place in range(self.n_features_in_):
            values = frame.iloc[:, place]
            known = {value: code for code, value in enumerate(self.words.get(place, ()))}
            codes[:, place] = [known.get(value, numpy.nan) for value in values] if known else values
        return codes

    def inverse_transform(self, rows):
        table = rows.astype(object)
        for place, known in self.words.items():
            unknown = "?" if isinstance(known[0], str) else -1.0
            codes = [-1 if code != code else int(code) for code in rows[:, place]]
            table[:, place] = [known[code] if 0 <= code < len(known) else unknown for code in codes]
        return table


def paths(model, inputs, seed=0):
    """Rows that reach the leaves of the trees in an estimator and the thresholds of their splits; None without trees.

    {"leaves": how many there are, "reached": how many of them the rows reach, "rows": {input: table},
    "edges": {"rows": {input: table}, "cells": [[input, column], ...]}, "blocked": why some trees have no rows}.
    `inputs` are those of the description. A leaf that no row can reach does not count.
    """
    random = numpy.random.default_rng(seed)
    places = list(_places(model))
    if not places:
        return None
    limit = max(1, min(ROWS, CELLS // len(named_columns(inputs))) // len(places))
    found = {"leaves": 0, "reached": 0}
    rows, at, columns = [], [], []
    for forest, steps in places:
        way = Way(model, inputs, steps)
        try:
            tables, leaves, reached = cover(forest, limit, random, there=way.there, back=way.back)
            turned, changed = edges(forest, limit, random, there=way.there, back=way.back)
        except Exception as error:  # a step may refuse what only this search feeds it
            found["leaves"] += int(forest.leaf.sum())
            found["blocked"] = f"{type(error).__name__}: {error}"[:200]
            continue
        found["leaves"] += leaves
        found["reached"] += reached
        rows, at, columns = rows + tables, at + turned, columns + changed
    if rows:
        found["rows"] = _by_input(inputs, rows)
    if columns:
        named = named_columns(inputs)
        found["edges"] = {"rows": _by_input(inputs, at), "cells": [list(named[column]) for column in columns]}
    return found


class Way:
    """The way from the estimator's table through some of its steps, and back."""

    def __init__(self, model, inputs, steps):
        self.model, self.inputs, self.steps = model, inputs, steps

    def there(self, table):
        """The table as it is behind the steps."""
        if not self.steps:
            return table.values.astype(numpy.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = table_of(self.model, as_inputs(self.inputs, table.values), False)
            for step in self.steps:
                values = step.transform(values)
        return _dense(values)

    def back(self, rows, filler):
        """The table that gives these rows behind the steps, as near as the steps can be undone."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Table(_undone(self.steps, rows, filler))


def _places(model):
    """(forest, steps before it) for all trees that stand at the same place."""
    trees, others = {}, []
    for part, steps in _parts(model, ()):
        key = tuple(map(id, steps))
        if hasattr(getattr(part, "tree_", None), "threshold"):
            trees.setdefault(key, (steps, part.n_features_in_, []))[2].append(part.tree_)
        elif hasattr(part, "_predictors"):
            encoder = getattr(part, "_preprocessor", None)
            before = steps if encoder is None else (*steps, encoder)
            stages = [predictor for stage in part._predictors for predictor in stage]
            lists = () if encoder is None else encoder.named_transformers_["encoder"].categories_
            others.append((forest_of_histograms(stages, part.n_features_in_, [len(known) for known in lists]), before))
        elif (found := _booster(part)) is not None:
            forest, coded = found
            others.append((forest, (*steps, *coded)))
    for steps, width, found in trees.values():
        yield forest_of_trees(found, width), steps
    yield from others


def _booster(part):
    from ._boosters import ensemble_of, library

    if library(part) == "sklearn":
        return None
    try:
        ensemble = ensemble_of(part)
    except Exception:  # its routes say why
        return None
    if not ensemble.splits:
        return None
    return forest_of_ensemble(ensemble), (Coded(ensemble.words, ensemble.width),) if ensemble.words else ()


def _parts(model, steps):
    """(estimator, the steps that its input went through) for the estimator and those inside it."""
    if hasattr(model, "steps"):
        for _, step in model.steps:
            if step in (None, "passthrough"):
                continue
            yield from _parts(step, steps)
            steps = (*steps, step)
        return
    yield model, steps
    inside = getattr(model, "estimators_", None)
    if isinstance(inside, dict):
        inside = list(inside.values())
    chosen = getattr(model, "estimators_features_", None)
    if isinstance(inside, (list, numpy.ndarray)):
        for place, part in enumerate(numpy.ravel(numpy.asarray(inside, dtype=object))):
            if chosen is not None:
                yield from _parts(part, (*steps, _chosen(chosen[place], model.n_features_in_)))
            elif _sees_as_much(part, model):
                yield from _parts(part, steps)
    for calibrated in getattr(model, "calibrated_classifiers_", ()):
        yield from _parts(calibrated.estimator, steps)
    for name in ("estimator_", "best_estimator_", "regressor_"):
        part = getattr(model, name, None)
        if hasattr(part, "fit") and _sees_as_much(part, model):
            yield from _parts(part, steps)


def _chosen(columns, width, known={}):  # noqa: B006  one object for the same columns, so that their trees stay together
    key = (tuple(int(column) for column in columns), width)
    return known.setdefault(key, Chosen(key[0], width))


def _sees_as_much(part, model):
    """Whether an inner estimator has as many columns as the outer: a chain gives its links more."""
    mine, its = getattr(model, "n_features_in_", None), getattr(part, "n_features_in_", None)
    return hasattr(part, "fit") and (mine is None or its is None or mine == its)


def _dense(values):
    values = values.toarray() if hasattr(values, "toarray") else values
    return numpy.asarray(values).astype(numpy.float64)


def _undone(steps, rows, filler):
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
        return _undone(inner, rows, filler)
    if name in UNDO:
        return UNDO[name](step, rows, filler)
    if name in TEXT:
        return _text(step, rows)
    rows = _filled(rows, filler)
    if name in IMPUTERS and rows.shape[1] == step.n_features_in_:
        return rows
    if name in IMPUTERS or not hasattr(step, "inverse_transform"):
        raise NoWayBack(f"{name} cannot be undone")
    undone = step.inverse_transform(rows.astype(numpy.float64))
    return numpy.asarray(undone.toarray() if hasattr(undone, "toarray") else undone)


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


def named_columns(inputs):
    """(input, place in it) of every feature."""
    if len(inputs) > 1:
        return [(item["name"], 0) for item in inputs]
    shape = inputs[0]["shape"]
    return [(inputs[0]["name"], place) for place in range(shape[1] if len(shape) > 1 else 1)]


def as_inputs(inputs, values):
    """{input: table} of a table with one column per feature."""
    if len(inputs) == 1:
        return {inputs[0]["name"]: values.astype(_type(inputs[0]))}
    return {item["name"]: values[:, place : place + 1].astype(_type(item)) for place, item in enumerate(inputs)}


def _type(item):
    return object if item["dtype"] == "string" else numpy.float64


def _by_input(inputs, tables):
    values = numpy.concatenate([table.values for table in tables])
    return {name: table.tolist() for name, table in as_inputs(inputs, values).items()}
