"""Values at which a fitted estimator's answer turns: thresholds of trees, centres, training rows that it kept.

A probe drawn around them reaches branches that a random number would miss.
"""

import numpy

from ._columns import positions

KEPT = 12  # values per feature: enough to land on several branches, few enough to print
LARGEST = 1e30  # beyond are no values, but LightGBM's way to ask whether one is missing
# Attributes with one number, or rows of one number, per feature.
ROWS = (
    "mean_", "center_", "data_min_", "data_max_", "theta_", "cluster_centers_", "means_", "centroids_", "support_vectors_",
    "_fit_X", "X_train_", "statistics_", "xbar_", "location_", "X_fit_",
)  # fmt: skip
# Attributes with one list of numbers per feature.
LISTS = ("bin_edges_", "categories_")


def landmarks(model, width):
    """For every feature its telling values, sorted; an empty list where the estimator shows none."""
    found = [set() for _ in range(width)]
    for part, columns in _raw_parts(model, list(range(width))):
        width = len(columns)
        for feature, value in (*_thresholds(part), *_rows(part, width), *_lists(part, width), *_plane(part, width)):
            if feature < len(columns) and numpy.isfinite(value):
                found[columns[feature]].add(float(value))
    return [spread(values) for values in found]


def spread(values):
    """At most `KEPT` of the values, evenly over their order."""
    ordered = sorted(value for value in values if abs(value) < LARGEST)
    if len(ordered) <= KEPT:
        return ordered
    return [ordered[round(index)] for index in numpy.linspace(0, len(ordered) - 1, KEPT)]


def _raw_parts(model, columns):
    """(estimator, its columns) for those inside that see the raw features: behind a step of a pipeline they are changed ones."""
    if hasattr(model, "steps"):
        for _, step in model.steps:
            if hasattr(step, "fit"):
                yield from _raw_parts(step, columns)
                if hasattr(step, "get_support") and step.n_features_in_ == len(columns):  # chooses among the features
                    columns = [columns[place] for place in step.get_support(indices=True)]
                elif not type(step).__name__.endswith("Imputer"):
                    return
        return
    if hasattr(model, "transformers_"):
        names = list(map(str, getattr(model, "feature_names_in_", ())))
        for _, part, chosen in model.transformers_:
            if hasattr(part, "fit"):
                yield from _raw_parts(part, [columns[place] for place in positions(chosen, names, len(columns))])
        return
    yield model, columns
    if not hasattr(model, "estimators_features_"):  # of a bagging, whose parts see a choice of the features
        for part in _members(model, len(columns)):
            yield from _raw_parts(part, columns)


def _members(model, width):
    """The fitted estimators inside another that see as many features: those of a union, an ensemble, a search, a wrapper."""
    # Private ones may see something else, as the encoder of a discretizer sees its bins.
    held = [value for name, value in getattr(model, "__dict__", {}).items() if not name.startswith("_")]
    for part in (part for value in held for part in _listed(value)):
        if hasattr(part, "fit") and not isinstance(part, type) and getattr(part, "n_features_in_", None) == width:
            yield part


def _listed(value):
    """A value, or those of a dict, a list, an array of objects, or a list of (name, value)."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple)) or (isinstance(value, numpy.ndarray) and value.dtype == object):
        items = numpy.ravel(value).tolist() if isinstance(value, numpy.ndarray) else value
        return [part for item in items for part in (item if isinstance(item, tuple) else (item,))]
    return (value,)


def _thresholds(model):
    """(feature, threshold) of every split."""
    tree = getattr(model, "tree_", None)
    if tree is not None and hasattr(tree, "threshold"):
        inner = tree.children_left >= 0
        yield from zip(tree.feature[inner].tolist(), tree.threshold[inner].tolist())
    for stage in getattr(model, "_predictors", ()):  # histogram gradient boosting
        for predictor in stage:
            nodes = predictor.nodes[(predictor.nodes["is_leaf"] == 0) & (predictor.nodes["is_categorical"] == 0)]
            yield from zip(nodes["feature_idx"].tolist(), nodes["num_threshold"].tolist())


def _rows(model, width):
    for name in ROWS:
        table = _numbers(getattr(model, name, None))
        if table is None or table.ndim not in (1, 2) or table.shape[-1] != width:
            continue
        rows = numpy.atleast_2d(table)
        for row in rows[:: max(1, len(rows) // KEPT)]:
            yield from enumerate(row.tolist())
    # A centre alone does not show how far its feature spreads.
    scale = _numbers(getattr(model, "scale_", None))
    for name in ("mean_", "center_"):
        centre = _numbers(getattr(model, name, None))
        if centre is not None and scale is not None and centre.shape == scale.shape == (width,):
            yield from enumerate((centre - 2 * scale).tolist())
            yield from enumerate((centre + 2 * scale).tolist())


def _plane(model, width):
    """Values around the nearest point at which a linear model answers zero, for each of its answers.

    They show how large its features are where a large intercept takes off what they all have in common, as of dates.
    """
    weights, intercept = _numbers(getattr(model, "coef_", None)), _numbers(getattr(model, "intercept_", None))
    if weights is None or intercept is None or weights.ndim not in (1, 2) or weights.shape[-1] != width:
        return
    rows = numpy.atleast_2d(weights)
    for row, shift in zip(
        rows, numpy.broadcast_to(intercept.ravel(), len(rows)) if intercept.size == 1 else intercept.ravel()
    ):
        length = float(row @ row)
        if length:
            point = -shift * row / length
            yield from enumerate((point - 1).tolist())
            yield from enumerate((point + 1).tolist())


def _lists(model, width):
    for name in LISTS:
        lists = getattr(model, name, None)
        if isinstance(lists, (list, numpy.ndarray)) and len(lists) == width:
            for feature, values in enumerate(lists):
                numbers = _numbers(values)
                yield from ((feature, value) for value in (() if numbers is None else numbers.ravel().tolist()))


def _numbers(values):
    if values is None or hasattr(values, "toarray"):
        return None
    array = numpy.asarray(values)
    return array.astype(float) if array.dtype.kind in "iufb" else None
