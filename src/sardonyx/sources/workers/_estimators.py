"""Fitted scikit-learn estimators and pipelines: what goes in, what comes out, and their own answers."""

import warnings

import numpy

from ._columns import inputs_of, table_of
from ._telling import as_type, draw, holes, precision, takes_infinity, telling, typed, unsized

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

# What a fitted tree, or an ensemble of a boosting library, has.
TREES = ("tree_", "_predictors", "get_booster", "booster_", "get_all_params")
SUPPORT_VECTORS = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")


DECIDED = 256  # rows on which labels are held against probabilities


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


def _ties(model):
    """Whether neighbours are counted somewhere inside: of equally far ones, each library takes another."""
    parts = [model, *(value for value in getattr(model, "get_params", dict)().values() if hasattr(value, "get_params"))]
    return any("Neighbors" in type(part).__name__ or "KNN" in type(part).__name__ for part in parts)


def describe(model):
    """Inputs, outputs, the kind of estimator, its link, and what its inputs may hold; see _telling.py."""
    inputs = inputs_of(model)
    found = telling(model, inputs)

    def ask(rows):
        return tried(predict, model, rows)

    kinds = precision(model, inputs, found, ask)
    rows = as_type(draw(inputs, found, 2), kinds[0])
    answers = ask(rows)
    named = (
        [(name, array.shape[1:]) for name, array in answers] if answers else [(n, None) for n in output_names(model)]
    )
    missing = holes(inputs, rows, ask)
    return {
        "inputs": typed(inputs, kinds),
        "outputs": [{"name": n, "shape": None if rest is None else ["batch", *rest]} for n, rest in named],
        "framework": "sklearn",
        "estimator": type(model).__name__,
        "unsized": unsized(model, inputs, found, kinds),
        "columns": list(map(str, getattr(model, "feature_names_in_", ()))),
        "kind": kind(model),
        "ties": _ties(model),
        "decided_by": decided_by([name for name, _ in named])
        if _probabilities_decide(model, inputs, found, ask)
        else {},
        "link": _link(model),
        "allow_nan": bool(missing),
        "missing": missing,
        "infinite": takes_infinity(inputs, rows, ask),
        "example": {} if answers is None else {name: array.tolist() for name, array in rows.items()},
        **found,
    }


def predict(model, inputs, *, double=False):
    """The estimator's own answers in the order of the export: labels [batch], everything else [batch, columns].

    With `double` they show how far float32 moves them; an estimator that computes in float64 anyway cannot say that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = list(_answers(model, table_of(model, inputs, False)))
        if not double:
            return as_precise_as(inputs, answers, single=answers_in_single(model))
        exact = list(_answers(model, table_of(model, inputs, True)))
    if all(numpy.array_equal(one, two) for (_, one), (_, two) in zip(answers, exact)):
        raise NotImplementedError(f"{type(model).__name__} computes in float64 whatever it is given")
    return exact


def prepare(model, inputs, **_):
    """A call that asks for the richest answer alone: labels follow from probabilities, as they do in the export."""
    table = table_of(model, inputs, False)
    ask = getattr(model, dict(ANSWERS[kind(model)])[output_names(model)[-1]])
    return lambda: ask(table)


def as_precise_as(inputs, answers, *, single=False):
    """The answers in float32 unless an input is float64: what an estimator computes beyond that is not asked of the export.

    With `single` they are float32 anyhow, as those of ONNX's operators for trees and support vectors.
    """
    if not single and any(array.dtype == numpy.float64 for array in inputs.values()):
        return answers
    with numpy.errstate(over="ignore"):
        return [
            (name, array.astype(numpy.float32) if array.dtype == numpy.float64 else array) for name, array in answers
        ]


def answers_in_single(model):
    """Whether the last step is of a kind whose operators in ONNX answer in float32: trees and support vectors."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    last = getattr(last, "best_estimator_", last)
    members = numpy.ravel(numpy.asarray(getattr(last, "estimators_", ()), dtype=object)).tolist()
    parts = [last, *members[:1]]
    return any(type(part).__name__ in SUPPORT_VECTORS or any(hasattr(part, name) for name in TREES) for part in parts)


def _probabilities_decide(model, inputs, found, ask):
    """Whether the label is always the class of the largest probability, the first of several: some decide by other scores.

    Larger rows are asked too, where probabilities may be all zero or one and often the same.
    """
    rows = draw(inputs, found, DECIDED)
    larger = {name: array * 3 if array.dtype.kind == "f" else array for name, array in rows.items()}
    classes = getattr(model, "classes_", None)
    for answers in filter(None, (ask(rows), ask(larger))):
        given = dict(answers)
        shares = next((array for name, array in answers if name != "label"), None)
        if not isinstance(classes, numpy.ndarray) or "label" not in given or shares is None:
            continue  # several answers, each with classes of its own
        if shares.ndim != 2 or classes.shape != shares.shape[1:] or given["label"].size != len(shares):
            continue
        if (classes[shares.argmax(1)] != given["label"].reshape(-1)).any():
            return False
    return True


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


def tried(ask, model, rows):
    """The answers to made-up rows, or None where the model refuses them."""
    try:
        return ask(model, rows)
    except Exception:  # whatever a model raises for what it does not take
        return None


def _link(model):
    """The function between the scores and the prediction, where the estimator shows it."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    link = type(getattr(getattr(last, "_loss", None), "link", None)).__name__
    return {"LogLink": "exp", "LogitLink": "sigmoid", "MultinomialLogit": "softmax"}.get(link, "identity")
