"""Values at which a fitted estimator's answer turns: thresholds of trees, centres, training rows that it kept.

A probe drawn around them reaches branches that a random number would miss.
"""

import numpy

from ._columns import positions

KEPT = 12  # values per feature: enough to land on several branches, few enough to print
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
        for feature, value in (*_thresholds(part), *_rows(part, len(columns)), *_lists(part, len(columns))):
            if feature < len(columns) and numpy.isfinite(value):
                found[columns[feature]].add(float(value))
    return [spread(values) for values in found]


def spread(values):
    """At most `KEPT` of the values, evenly over their order."""
    ordered = sorted(values)
    if len(ordered) <= KEPT:
        return ordered
    return [ordered[round(index)] for index in numpy.linspace(0, len(ordered) - 1, KEPT)]


def _raw_parts(model, columns):
    """(estimator, its columns) for those inside that see the raw features: behind a step of a pipeline they are changed ones."""
    if hasattr(model, "steps"):
        for _, step in model.steps:
            if hasattr(step, "fit"):
                yield from _raw_parts(step, columns)
                if not type(step).__name__.endswith("Imputer"):
                    return
        return
    if hasattr(model, "transformers_"):
        names = list(map(str, getattr(model, "feature_names_in_", ())))
        for _, part, chosen in model.transformers_:
            if hasattr(part, "fit"):
                yield from _raw_parts(part, [columns[place] for place in positions(chosen, names, len(columns))])
        return
    yield model, columns
    inside = getattr(model, "estimators_", None)
    if inside is not None and not hasattr(model, "estimators_features_"):
        parts = inside.values() if isinstance(inside, dict) else numpy.ravel(numpy.asarray(inside, dtype=object))
        for part in parts:
            if hasattr(part, "fit"):
                yield from _raw_parts(part, columns)
    for name in ("estimator_", "best_estimator_", "regressor_"):
        if hasattr(getattr(model, name, None), "fit"):
            yield from _raw_parts(getattr(model, name), columns)


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
