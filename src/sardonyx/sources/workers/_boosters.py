"""XGBoost, LightGBM and CatBoost models: what goes in, what comes out, and their own answers."""

import math
import re

import numpy

from ._ensemble import from_catboost, from_lightgbm, from_xgboost
from ._estimators import Refused, canonical
from ._tree_graph import is_of_words


def library(model):
    """xgboost, lightgbm, catboost, or sklearn for a pipeline around one of them."""
    modules = [cls.__module__.partition(".")[0] for cls in type(model).__mro__]
    return next((name for name in modules if name in ("xgboost", "lightgbm", "catboost")), "sklearn")


def booster_of(model):
    """The native model inside a wrapper in scikit-learn's style, cut to its best iteration where the wrapper would."""
    if library(model) == "lightgbm":
        return getattr(model, "booster_", model)
    if not hasattr(model, "get_booster"):
        return model
    booster = model.get_booster()
    best = booster.attr("best_iteration")
    return booster if best is None else booster[: int(best) + 1]


def ensemble_of(model):
    """The trees, scores and link of the model."""
    read = {"xgboost": from_xgboost, "lightgbm": from_lightgbm, "catboost": from_catboost}[library(model)]
    ensemble = read(booster_of(model))
    missing = getattr(model, "missing", None)
    ensemble.missing = math.nan if missing is None else float(missing)
    return ensemble


def is_classifier(model):
    """Whether it answers labels and probabilities. A native booster only ever answers its prediction."""
    return hasattr(model, "predict_proba") and hasattr(model, "classes_")


def width_of(model):
    """The number of features."""
    booster = booster_of(model)
    if library(model) == "lightgbm":
        return int(booster.num_feature())
    if library(model) == "xgboost":
        return int(booster.num_features())
    return len(model.feature_names_)


def columns_of(model):
    """The names of the columns that the model was fitted on, in order; none where it was fitted on a bare matrix."""
    booster = booster_of(model)
    names = {
        "xgboost": lambda: booster.feature_names,
        "lightgbm": lambda: booster.feature_name(),
        "catboost": lambda: booster.feature_names_,
    }[library(model)]()
    own = any(not re.fullmatch(r"(Column_)?\d+", str(name)) for name in names or ())
    return list(map(str, names)) if own else []


def inputs_of(model):
    """One matrix `X`, or one input for each column where the model was fitted on a frame with categories or texts."""
    words, strings = words_of(model), string_columns(model)
    if not words and not strings:
        return [{"name": "X", "dtype": "float32", "shape": ["batch", width_of(model)]}]
    names = columns_of(model) or [f"x{place}" for place in range(width_of(model))]
    return [
        {"name": name, "dtype": "string" if place in strings else "float32", "shape": ["batch", 1]}
        for place, name in enumerate(names)
    ]


def string_columns(model):
    """The places of the columns that hold words. CatBoost does not say whether its categories are numbers."""
    if library(model) == "catboost":
        return {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
    return {place for place, known in words_of(model).items() if is_of_words(known)}


def words_of(model):
    """{place of a column: its categories in the user's frame}; none where the model does not hold them."""
    try:
        return ensemble_of(model).words
    except Refused:  # the routes say why
        return {}


def table_of(model, inputs):
    """The inputs as the model takes them: a matrix, or a frame with its categories."""
    arrays = list(inputs.values())
    if len(arrays) == 1:
        return _with_categories(model, arrays[0]) if library(model) == "catboost" else arrays[0]
    import pandas

    words = {} if library(model) == "catboost" else words_of(model)
    columns = {
        name: pandas.Categorical(array.ravel(), categories=words[place]) if place in words else array.ravel()
        for place, (name, array) in enumerate(inputs.items())
    }
    return pandas.DataFrame(columns)


def predict(model, inputs):
    """The model's own answers: `label` and `probabilities` of a classifier, else `prediction`."""
    table = table_of(model, inputs)
    if is_classifier(model):
        label = canonical("label", numpy.asarray(model.predict(table)).reshape(len(table)))
        return [("label", label), ("probabilities", numpy.asarray(model.predict_proba(table)))]
    return [("prediction", canonical("prediction", _prediction(model, table)))]


def _prediction(model, array):
    if type(model).__module__.startswith("xgboost") and not hasattr(model, "get_booster"):
        import xgboost

        types = None if hasattr(array, "columns") else model.feature_types
        matrix = xgboost.DMatrix(
            array,
            feature_names=model.feature_names,
            feature_types=types,
            enable_categorical="c" in (model.feature_types or ()),
        )
        return model.predict(matrix)
    return model.predict(array)


def _with_categories(model, array):
    """CatBoost takes categories as whole numbers, which a matrix of floats cannot hold beside its other columns."""
    places = model.get_cat_feature_indices()
    if not places:
        return array
    import pandas

    frame = pandas.DataFrame(array, columns=model.feature_names_)
    return frame.astype({model.feature_names_[place]: numpy.int64 for place in places})
