"""Where trees stand inside an estimator: behind which steps, and how to go through these steps and back."""

import warnings

import numpy

from ._columns import table_of
from ._forest import cover, edges, forest_of_ensemble, forest_of_histograms, forest_of_trees
from ._undo import undone

# Rows at most, for the leaves and for the splits, and numbers in each: a description is sent as text.
LEAF_ROWS, SPLIT_ROWS, CELLS = 5000, 2000, 300_000


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
        self.key = (tuple(self.columns.tolist()), width)  # members with the same columns stand at the same place

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

    {"leaves": how many there are, "reached": how many of them the rows reach, "exact": whether all trees see the raw features,
    "rows": {input: table}, "edges": {"rows": {input: table}, "cells": [[input, column], ...]}, "blocked": why some have no rows}.
    `inputs` are those of the description. A leaf that no row can reach does not count.
    """
    random = numpy.random.default_rng(seed)
    places = list(_places(model))
    if not places:
        return None
    most = CELLS // len(named_columns(inputs))
    for_leaves, for_splits = (max(1, min(rows, most) // len(places)) for rows in (LEAF_ROWS, SPLIT_ROWS))
    found = {"leaves": 0, "reached": 0, "exact": not any(steps for _, steps in places)}
    rows, at, columns = [], [], []
    for forest, steps in places:
        way = Way(model, inputs, steps)
        try:
            tables, leaves, reached = cover(forest, for_leaves, random, there=way.there, back=way.back)
            turned, changed = edges(forest, for_splits, random, there=way.there, back=way.back)
        except Exception as error:  # a step may refuse what only this search feeds it
            found["leaves"] += int(forest.leaf.sum())
            found["blocked"] = str(error)[:200] or type(error).__name__
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
            return Table(undone(self.steps, rows, filler))


def _places(model):
    """(forest, steps before it) for all trees that stand at the same place."""
    trees, others = {}, []
    for part, steps in _parts(model, ()):
        key = tuple(getattr(step, "key", id(step)) for step in steps)
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
                yield from _parts(part, (*steps, Chosen(chosen[place], model.n_features_in_)))
            elif _sees_as_much(part, model):
                yield from _parts(part, steps)
    for calibrated in getattr(model, "calibrated_classifiers_", ()):
        yield from _parts(calibrated.estimator, steps)
    for name in ("estimator_", "best_estimator_", "regressor_"):
        part = getattr(model, name, None)
        if hasattr(part, "fit") and _sees_as_much(part, model):
            yield from _parts(part, steps)


def _sees_as_much(part, model):
    """Whether an inner estimator has as many columns as the outer: a chain gives its links more."""
    mine, its = getattr(model, "n_features_in_", None), getattr(part, "n_features_in_", None)
    return hasattr(part, "fit") and (mine is None or its is None or mine == its)


def _dense(values):
    values = values.toarray() if hasattr(values, "toarray") else values
    return numpy.asarray(values).astype(numpy.float64)


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
