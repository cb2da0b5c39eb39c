"""Fitted scikit-learn estimators and pipelines: what goes in, what comes out, and their own answers."""

import warnings

import numpy

from ._landmarks import landmarks

ENCODERS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")
TEXT = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
LABEL_TRANSFORMERS = ("LabelEncoder", "LabelBinarizer")
SELECTORS = ("RFE", "RFECV")  # they predict as well, but a pipeline uses them to select, and so does the export

# What each kind answers: (output name, method). Scores stand in where there are no probabilities.
ANSWERS = {
    "classifier": (("label", "predict"), ("probabilities", "predict_proba"), ("scores", "decision_function")),
    "outlier_detector": (("label", "predict"), ("scores", "decision_function")),
    "density_estimator": (("label", "predict"), ("probabilities", "predict_proba")),
    "clusterer": (("label", "predict"), ("distances", "transform")),
    "regressor": (("prediction", "predict"),),
    "transformer": (("transformed", "transform"),),
}


class Refused(Exception):
    """What was handed in cannot be used or exported: a line that says why, and a hint."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


def adopt(estimator, source):
    """The estimator, if it is one and has been fitted."""
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"expected a fitted estimator, got {estimator!r:.80}")
    if source.get("weights"):
        raise ValueError("an estimator carries its own parameters; leave --weights out")
    check_is_fitted(estimator)
    return estimator


def describe(model):
    """Inputs, outputs, the kind of estimator, its link, whether it takes NaN, and values at which its answer turns."""
    inputs = inputs_of(model)
    matrix = len(inputs) == 1 and inputs[0]["dtype"] == "float32" and len(inputs[0]["shape"]) == 2
    width = inputs[0]["shape"][-1]
    tried = _tried(model, width) if matrix else None
    named = [(name, array.shape[1:]) for name, array in tried] if tried else [(n, None) for n in output_names(model)]
    return {
        "inputs": inputs,
        "outputs": [{"name": n, "shape": None if rest is None else ["batch", *rest]} for n, rest in named],
        "framework": "sklearn",
        "estimator": type(model).__name__,
        "columns": list(map(str, getattr(model, "feature_names_in_", ()))),
        "kind": kind(model),
        "decided_by": decided_by([name for name, _ in named]),
        "link": _link(model),
        "allow_nan": matrix and _tried(model, width, missing=True) is not None,
        "landmarks": {"X": landmarks(model)} if matrix else {},
    }


def predict(model, inputs, *, double=False):
    """The estimator's own answers in the order of the export: labels [batch], everything else [batch, columns].

    With `double` they show how far float32 moves them; an estimator that computes in float64 anyway cannot say that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = list(_answers(model, _table(model, inputs, False)))
        if not double:
            return as_precise_as(inputs, answers)
        exact = list(_answers(model, _table(model, inputs, True)))
    if all(numpy.array_equal(one, two) for (_, one), (_, two) in zip(answers, exact)):
        raise NotImplementedError(f"{type(model).__name__} computes in float64 whatever it is given")
    return exact


def prepare(model, inputs, **_):
    """A call that asks for the richest answer alone: labels follow from probabilities, as they do in the export."""
    table = _table(model, inputs, False)
    ask = getattr(model, dict(ANSWERS[kind(model)])[output_names(model)[-1]])
    return lambda: ask(table)


def as_precise_as(inputs, answers):
    """The answers in float32 unless an input is float64: what an estimator computes beyond that is not asked of the export."""
    if any(array.dtype == numpy.float64 for array in inputs.values()):
        return answers
    with numpy.errstate(over="ignore"):
        return [
            (name, array.astype(numpy.float32) if array.dtype == numpy.float64 else array) for name, array in answers
        ]


def decided_by(names):
    """{output of labels: the output whose numbers decide it}, so that a label may change where those are nearly even."""
    others = [name for name in names if name != "label"]
    return {"label": others[0]} if "label" in names and len(others) == 1 else {}


def kind(model):
    """classifier, regressor, clusterer, outlier_detector, density_estimator or transformer."""
    try:
        from sklearn.utils import get_tags

        said = get_tags(model).estimator_type
    except ImportError:  # before scikit-learn 1.6
        said = getattr(model, "_estimator_type", None)
    said = "density_estimator" if said == "DensityEstimator" else said
    if said in ANSWERS and hasattr(model, "predict") and type(model).__name__ not in SELECTORS:
        return said
    if hasattr(model, "transform"):
        return "transformer"
    raise Refused(f"{type(model).__name__} has neither predict nor transform for new data")


def output_names(model):
    """The outputs of one target, in order."""
    found = [name for name, method in ANSWERS[kind(model)] if hasattr(model, method)]
    return [name for name in found if name != "scores" or "probabilities" not in found]


def _answers(model, table):
    methods = dict(ANSWERS[kind(model)])
    for name in output_names(model):
        answer = getattr(model, methods[name])(table)
        if isinstance(answer, list):  # one table of probabilities for each target
            yield from ((f"{name}_{index}", numpy.asarray(part)) for index, part in enumerate(answer))
        else:
            yield name, canonical(name, answer, both_signs=kind(model) == "classifier")


def canonical(name, answer, *, both_signs=False):
    """Labels as integers or strings [batch]; the rest [batch, columns]; a binary score as [-score, score]."""
    answer = answer.toarray() if hasattr(answer, "toarray") else numpy.asarray(answer)
    if name == "label":
        return answer.astype(numpy.int64) if answer.dtype.kind in "biuf" else answer.astype(str)
    if answer.ndim == 1:
        return numpy.stack([-answer, answer], 1) if name == "scores" and both_signs else answer[:, None]
    return answer


def _table(model, inputs, double):
    """The inputs as the estimator takes them: a matrix, a list of texts, or a data frame."""
    arrays = {name: _column_type(array, double) for name, array in inputs.items()}
    if len(arrays) > 1:
        return _frame({name: array.ravel() for name, array in arrays.items()}, None)
    array = next(iter(arrays.values()))
    if type(first_step(model)).__name__ in TEXT + LABEL_TRANSFORMERS:
        return array.ravel()
    return _frame(array, list(model.feature_names_in_)) if hasattr(model, "feature_names_in_") else array


def _column_type(array, double):
    if array.dtype.kind in "US":
        return array.astype(object)
    return array.astype(numpy.float64) if double and array.dtype.kind == "f" else array


def _frame(values, columns):
    import pandas

    return pandas.DataFrame(values, columns=columns)


def inputs_of(model):
    """One matrix `X`, or one input per column where columns differ in type or are chosen by name."""
    first = first_step(model)
    if type(first).__name__ in TEXT:
        return [_input("X", True, 1)]
    if type(first).__name__ in LABEL_TRANSFORMERS:
        words = numpy.asarray(first.classes_).dtype.kind in "OUS"
        return [{"name": "X", "dtype": "string" if words else "int64", "shape": ["batch"]}]
    width = getattr(model, "n_features_in_", None)
    names = list(map(str, getattr(model, "feature_names_in_", ())))
    strings = string_columns(first, names, width or 0)
    if names and (strings or type(first).__name__ == "ColumnTransformer"):
        return [_input(name, index in strings, 1) for index, name in enumerate(names)]
    if strings and len(strings) < width:
        return [_input(f"x{index}", index in strings, 1) for index in range(width)]
    if width is None:
        return [{"name": "X", "dtype": "float32", "shape": ["batch"]}]
    return [_input("X", bool(strings), width)]


def _input(name, is_string, width):
    return {"name": name, "dtype": "string" if is_string else "float32", "shape": ["batch", width]}


def first_step(model):
    """The part of a pipeline that sees the raw input."""
    while hasattr(model, "steps"):
        model = next((step for _, step in model.steps if step not in (None, "passthrough")), model.steps[-1][1])
    return model


def string_columns(transformer, names, width):
    """The positions of the input columns that hold strings, told from the categories that were learned."""
    name = type(transformer).__name__
    if name == "ColumnTransformer":
        return {column for part in transformer.transformers_ for column in _strings_of_part(part, names, width)}
    if name in ENCODERS:
        return {i for i, known in enumerate(transformer.categories_) if numpy.asarray(known).dtype.kind in "OUS"}
    if name == "SimpleImputer" and transformer.statistics_.dtype == object:
        return set(range(width))
    return set()


def _strings_of_part(part, names, width):
    _, transformer, columns = part
    if isinstance(transformer, str):
        return []
    chosen = _positions(columns, names, width)
    inner = first_step(transformer)
    inside = range(len(chosen)) if type(inner).__name__ in TEXT else string_columns(inner, [], len(chosen))
    return [chosen[index] for index in inside]


def _positions(columns, names, width):
    """Column positions of a ColumnTransformer's selection, which may be a name, a position, a slice, a mask or a list."""
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            return list(range(names.index(columns.start or names[0]), names.index(columns.stop or names[-1]) + 1))
        return list(range(width))[columns]
    listed = [columns] if isinstance(columns, (str, int)) else list(columns)
    if listed and isinstance(listed[0], (bool, numpy.bool_)):
        return [index for index, chosen in enumerate(listed) if chosen]
    return [names.index(column) if isinstance(column, str) else int(column) for column in listed]


def _tried(model, width, missing=False):
    """The answers to two made-up rows, or None. Tags do not see through pipelines, so a missing value is tried as well."""
    rows = numpy.ones((2, width), numpy.float32)
    if missing:
        rows[0, 0] = numpy.nan
    try:
        return predict(model, {"X": rows})
    except Exception:
        return None


def _link(model):
    """The function between the scores and the prediction, where the estimator shows it."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    link = type(getattr(getattr(last, "_loss", None), "link", None)).__name__
    return {"LogLink": "exp", "LogitLink": "sigmoid", "MultinomialLogit": "softmax"}.get(link, "identity")
