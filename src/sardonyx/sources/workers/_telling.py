"""What an estimator shows about the values that its inputs may take: words, categories, thresholds, holes, and precision."""

import numpy

from ._columns import ENCODERS, LABEL_TRANSFORMERS, first_step, is_text, positions
from ._landmarks import landmarks, spread
from ._spaces import named_columns, paths

WORDS = 20_000  # of a vocabulary, evenly over its order
ROWS = 256  # asked in both precisions
# The share of their spread by which rounding the input to float32 may move the answers.
MOVED = 1e-4
TRIED = 64  # columns that are asked one by one whether they take a missing value


def telling(model, inputs):
    """`words`, `texts`, `categories`, `landmarks` and `paths`, by the inputs of the description; see sardonyx.falsify."""
    columns = named_columns(inputs)
    found = {"words": _words(model, inputs), "texts": {}, "categories": {}, "landmarks": {}}
    known = known_categories(model)
    if known:
        listed = [known.get(place, []) for place in range(len(columns))]
        found["categories"] = by_input(columns, listed)
        found["texts"] = strings_of(inputs, found["categories"])
    found["landmarks"] = by_input(columns, landmarks(model, len(columns)))
    add_paths(found, paths(model, inputs))
    return found


def add_paths(found, ways):
    """Adds the paths through trees, and the values at which they turn in the raw features."""
    if ways is None:
        return
    found["paths"] = ways
    edges = ways.get("edges", {"cells": []})
    turns = {}
    for row, (name, place) in enumerate(edges["cells"]):
        turns.setdefault((name, place), set()).add(edges["rows"][name][row][place])
    for (name, place), values in turns.items():
        held = found["landmarks"][name]
        if not held[place]:  # trees that see the raw features have given theirs
            held[place] = spread(values)


def by_input(columns, lists):
    """{input: [list of its first column, ...]} of one list for every column."""
    found = {}
    for (name, _), values in zip(columns, lists):
        found.setdefault(name, []).append(list(values))
    return found


def strings_of(inputs, categories):
    """{input of strings: all of its categories}"""
    return {
        item["name"]: sorted({str(value) for values in categories[item["name"]] for value in values})
        for item in inputs
        if item["dtype"] == "string"
    }


def _words(model, inputs):
    """{input: the vocabulary and stop words of the vectorizers that read it}"""
    found = {}
    for step, place in _texts(model):
        name = named_columns(inputs)[place][0]
        for vectorizer in _vectorizers(step):
            known = set(getattr(vectorizer, "vocabulary_", None) or ()) | set(vectorizer.get_stop_words() or ())
            found[name] = found.get(name, set()) | known
    return {name: _evenly(sorted(words), WORDS) for name, words in found.items()}


def _texts(model):
    """(step that takes texts, place of its column)"""
    first = first_step(model)
    if is_text(first):
        yield first, 0
    for _, part, columns in getattr(first, "transformers_", ()):
        if not isinstance(part, str) and is_text(first_step(part)):
            for place in _places(first, columns):
                yield first_step(part), place


def _vectorizers(step):
    parts = [part for _, part in getattr(step, "transformer_list", ())]
    return [vectorizer for part in parts for vectorizer in _vectorizers(first_step(part))] if parts else [step]


def known_categories(model):
    """{place of a column: the categories that were learned for it, without a missing one}"""
    if type(model).__name__ in LABEL_TRANSFORMERS:
        return {0: _plain(model.classes_)}
    found = {}
    for encoder, columns in _encoders(model):
        for index, values in enumerate(encoder.categories_):
            if index < len(columns):
                found[columns[index]] = _plain(values)
    return found


def _encoders(model, columns=None):
    """(encoder, places of its columns) for those that see raw columns, as they are or with holes filled."""
    for step in [step for _, step in model.steps] if hasattr(model, "steps") else [model]:
        if hasattr(step, "steps"):
            yield from _encoders(step, columns)
            return
        width = getattr(step, "n_features_in_", 0)
        mine = list(range(width)) if columns is None else columns
        if type(step).__name__ in ENCODERS:
            yield step, mine
        inner = getattr(step, "_preprocessor", None)  # of a histogram gradient boosting with categories
        for _, part, chosen in getattr(step if inner is None else inner, "transformers_", ()):
            if hasattr(part, "fit"):
                yield from _encoders(part, [mine[place] for place in _places(step, chosen)])
        for _, part in getattr(step, "transformer_list", ()):
            if hasattr(part, "fit"):
                yield from _encoders(part, mine)
        if not type(step).__name__.endswith("Imputer"):
            return


def _places(step, columns):
    return positions(columns, list(map(str, getattr(step, "feature_names_in_", ()))), step.n_features_in_)


def _plain(values):
    """Python's own numbers and strings; None and NaN are no categories that an input of the export could hold."""
    listed = numpy.asarray(values).tolist()
    return [value for value in listed if value is not None and value == value][:WORDS]


def _evenly(values, count):
    if len(values) <= count:
        return list(values)
    return [values[round(index)] for index in numpy.linspace(0, len(values) - 1, count)]


def draw(inputs, found, count, seed=0):
    """Rows of plausible values, in float64: known words and categories, numbers between landmarks, else around one."""
    random = numpy.random.default_rng(seed)
    rows = {}
    for item in inputs:
        width = item["shape"][1] if len(item["shape"]) > 1 else 1
        columns = [_column(item, place, found, count, random) for place in range(width)]
        table = numpy.stack(columns, 1)
        rows[item["name"]] = table if len(item["shape"]) > 1 else table[:, 0]
    return rows


def _column(item, place, found, count, random):
    name, string = item["name"], item["dtype"] == "string"
    known = (found.get("categories") or {}).get(name)
    if known and known[place]:
        values = numpy.array(known[place], dtype=object)[random.integers(0, len(known[place]), count)]
        return values if string else values.astype(numpy.float64)
    if string:
        words = (found.get("words") or {}).get(name) or ["a", "b"]
        return numpy.array([" ".join(random.choice(words, 4)) for _ in range(count)], dtype=object)
    marks = ((found.get("landmarks") or {}).get(name) or [[]] * (place + 1))[place]
    if item["dtype"].startswith("int"):
        return random.integers(0, 2, count)
    if not marks:
        return 1 + 0.1 * random.standard_normal(count) * (count > 2)
    marks = numpy.unique(marks)
    if len(marks) == 1:  # one number says how large the values are, not how far they spread
        return marks[0] + (0.1 * abs(marks[0]) or 1.0) * random.standard_normal(count)
    # Between two neighbours, so that most rows lie where most landmarks do.
    chosen = random.integers(0, len(marks) - 1, count)
    return marks[chosen] + random.random(count) * (marks[chosen + 1] - marks[chosen])


def holes(inputs, rows, ask):
    """{input: the columns in which a missing value is taken}. `ask` gives None where the estimator refuses."""
    floats = [item["name"] for item in inputs if item["dtype"].startswith("float")]
    every = {name: numpy.full_like(rows[name], numpy.nan) for name in floats}
    if not floats:
        return {}
    if ask({**rows, **every}) is not None:
        return {name: list(range(_width(rows[name]))) for name in floats}
    found = {}
    cells = [(item, place) for item in floats for place in range(_width(rows[item]))]
    for name, place in cells[:TRIED]:
        holed = rows[name].copy()
        holed.reshape(len(holed), -1)[0, place] = numpy.nan
        if ask({**rows, name: holed}) is not None:
            found.setdefault(name, []).append(place)
    return found


def takes_infinity(inputs, rows, ask):
    floats = [item["name"] for item in inputs if item["dtype"].startswith("float")]
    return (
        bool(floats) and ask({**rows, **{name: numpy.full_like(rows[name], numpy.inf) for name in floats}}) is not None
    )


def _width(array):
    return array.reshape(len(array), -1).shape[1]


def precision(model, inputs, found, ask):
    """The float types that the estimator takes, the one to export for first: float32 unless that is too coarse for it."""
    rows = draw(inputs, found, 2)
    taken = [kind for kind in ("float32", "float64") if ask(as_type(rows, kind)) is not None] or ["float32"]
    if taken != ["float32", "float64"] or was_fitted_in_single(model):
        return taken
    return taken[::-1] if turns_on_data(model) or is_coarse(inputs, found, ask) else taken


def unsized(model, inputs, found, kinds):
    """The float columns of which nothing shows how large they are, where float32 is taken and float64 might be needed."""
    if kinds != ["float32", "float64"] or was_fitted_in_single(model):
        return []
    names = list(map(str, getattr(model, "feature_names_in_", ())))
    columns = [
        (item["name"], place)
        for item in inputs
        if item["dtype"].startswith("float")
        for place in range(_places_of(item))
    ]
    return [
        names[index] if len(names) == len(columns) else f"{name}[:, {place}]"
        for index, (name, place) in enumerate(columns)
        if not _shown(found, name, place)
    ]


def _shown(found, name, place):
    return any(
        len((found.get(kind) or {}).get(name) or ()) > place and found[kind][name][place]
        for kind in ("landmarks", "categories")
    )


def _places_of(item):
    return item["shape"][1] if len(item["shape"]) > 1 and isinstance(item["shape"][1], int) else 1


def typed(inputs, kinds):
    """The inputs with the float type to export for, and all that are taken as `dtypes`."""
    return [
        {**item, "dtype": kinds[0], "dtypes": kinds} if item["dtype"].startswith("float") else item for item in inputs
    ]


def as_type(rows, kind):
    """The rows with their floats in another type."""
    return {name: array.astype(kind) if array.dtype.kind == "f" else array for name, array in rows.items()}


def was_fitted_in_single(model):
    """Whether a part of the estimator holds float32, as those do that keep the type of the data they were fitted to."""
    steps = [step for _, step in getattr(model, "steps", ())] or [model]
    held = [value for step in steps for value in getattr(step, "__dict__", {}).values()]
    return any(getattr(value, "dtype", None) == numpy.float32 for value in held)


def turns_on_data(model):
    """Whether splits turn at values of the data, as those of histogram boosting do, which float32 does not hold."""
    for step in [step for _, step in getattr(model, "steps", ())] or [model]:
        mapper = getattr(step, "_bin_mapper", None)
        # With fewer distinct values than bins, splits lie between two values.
        full = [limits for limits in getattr(mapper, "bin_thresholds_", ()) if len(limits) >= step.max_bins - 1]
        # A few are the mean of two values, and no float32 although the data were.
        if any(numpy.mean(limits != limits.astype(numpy.float32)) > 0.5 for limits in full):
            return True
    return False


def is_coarse(inputs, found, ask):
    """Whether rounding plausible rows to float32 moves the estimator's own answers by more than `MOVED` of their spread."""
    if not any(map(any, found["landmarks"].values())) and not found.get("paths"):
        return False  # nothing shows how large its values are
    for rows in (draw(inputs, found, ROWS), _on_paths(inputs, found)):
        if rows is None:
            continue
        # Back in float64, so that only the input is rounded: an export may still compute in float64.
        exact, rounded = ask(rows), ask(as_type(as_type(rows, numpy.float32), numpy.float64))
        if exact is not None and rounded is not None and any(map(_moved, exact, rounded)):
            return True
    return False


def _on_paths(inputs, found):
    rows = (found.get("paths") or {}).get("rows")
    if not rows:
        return None
    return {
        item["name"]: numpy.array(rows[item["name"]][:ROWS], object if item["dtype"] == "string" else numpy.float64)
        for item in inputs
    }


def _moved(exact, rounded):
    one, two = exact[1], rounded[1]
    if one.dtype.kind != "f":
        return False  # labels follow from scores
    known = numpy.isfinite(one) & numpy.isfinite(two)
    return bool(known.any()) and bool(numpy.abs(one - two)[known].max() > MOVED * numpy.std(one[known]))
