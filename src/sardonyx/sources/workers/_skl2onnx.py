"""Exports estimators by skl2onnx, with the options that make its graph say what the estimator says."""

import contextlib
import warnings

import numpy

from ._boosters import library
from ._estimators import Refused, predict
from ._interface import axes_of, settle
from ._pipelines import our_converters, stamp
from ._trees import mended
from ._vectorizers import LOCALE

ML_OPSET = 3  # the newest that all converters take, and the first whose trees hold float64
OLDEST = {"LabelBinarizer": 19}  # the first opset that compares strings
# Parameters that change only the packing of an answer, and the value without which skl2onnx declines.
PACKING = {
    "VotingClassifier": ("flatten_transform", True, False),
    "KBinsDiscretizer": ("encode", "onehot", "onehot-dense"),
    "RandomTreesEmbedding": ("sparse_output", True, False),
}
# Estimators whose operators compute in float32 alone.
SINGLE = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
LAST = "estimator"
PART_OPTIONS = {
    # The operator Scaler multiplies by the inverse. Trees behind it may turn on the last bit of a quotient.
    "StandardScaler": {"div": "div"},
    "CountVectorizer": {"locale": LOCALE},
    "TfidfVectorizer": {"locale": LOCALE},
}
TYPES = {
    "float": "FloatTensorType", "double": "DoubleTensorType", "int64": "Int64TensorType", "int32": "Int32TensorType",
    "int16": "Int16TensorType", "int8": "Int8TensorType", "uint8": "UInt8TensorType", "bool": "BooleanTensorType",
}  # fmt: skip


def export(model, route, out, *, inputs, dynamic, opset, input_names=(), output_names=(), training=False):
    """Writes the estimator as ONNX. `skl2onnx` computes in float32, `skl2onnx-double` in float64; both take the same inputs."""
    import onnx
    import skl2onnx

    if training:
        raise Refused("an estimator has no training form in ONNX", "leave --training out")
    answers = predict(model, inputs)
    model = getattr(model, "best_estimator_", model)
    oldest = max(OLDEST.get(type(part).__name__, 0) for _, part in _named_parts(model))
    newest = max(oldest, min(opset, skl2onnx.__max_supported_opset__))
    double = route.endswith("-double")
    parts = [part for _, part in _named_parts(model)]
    try:
        with warnings.catch_warnings(), our_converters(parts), mended(), _unpacked(model):
            warnings.simplefilter("ignore")
            exported = _first_of(_rounding(model) if double else model, _typings(inputs, dynamic, double), newest)
    except Exception as error:
        raise refusal(model, error) from error
    stamp(exported)
    settle(exported, answers, inputs=inputs, dynamic=dynamic, opset=newest, output_names=output_names)
    onnx.save(exported, out)
    return {"opset": newest}


def _first_of(model, typings, opset):
    """The conversion for the first types of the inputs that skl2onnx takes."""
    for types in typings[:-1]:
        try:
            return _converted(model, types, opset)
        except Exception:  # what the last types give is the answer
            continue
    return _converted(model, typings[-1], opset)


def _typings(inputs, dynamic, double):
    """The types of the inputs, and for integers, which few converters take, floats behind a Cast as the last resort."""
    as_floats = {name: array.astype(float) if array.dtype.kind in "iu" else array for name, array in inputs.items()}
    whole = any(array.dtype.kind in "iu" for array in inputs.values())
    return [_types(kinds, dynamic, double=double) for kinds in ((inputs, as_floats) if whole else (inputs,))]


def _rounding(model):
    """The estimator with a step that rounds to float32 where it does so itself, or where no operator takes float64."""
    from skl2onnx.sklapi import CastTransformer
    from sklearn.pipeline import Pipeline

    steps = list(getattr(model, "steps", [(LAST, model)]))
    name, last = steps[-1]
    if not rounds(last) and type(last).__name__ not in SINGLE:
        return model
    return Pipeline([*steps[:-1], ("rounded", CastTransformer(dtype=numpy.float32)), (name, last)])


def rounds(model):
    """Whether all that an estimator makes of its input goes through trees that round it to float32."""
    if library(model) != "sklearn":
        return library(model) != "lightgbm"
    members = numpy.ravel(numpy.asarray(getattr(model, "estimators_", ()), dtype=object)).tolist()
    members += [calibrated.estimator for calibrated in getattr(model, "calibrated_classifiers_", ())]
    if members:
        return all(map(rounds, members))
    return hasattr(model, "tree_")


def _converted(model, types, opset):
    from skl2onnx import convert_sklearn

    options = {"initial_types": types, "options": _options(model)}
    try:
        return convert_sklearn(model, target_opset={"": opset, "ai.onnx.ml": ML_OPSET}, **options)
    except TypeError as error:
        if "'dict'" not in str(error):
            raise
        return convert_sklearn(model, target_opset=opset, **options)  # some converters expect one number


def refusal(model, error):
    """One line that says which estimator, where in the pipeline, and what would take it."""
    text = " ".join(str(error).split())
    for name, part in _named_parts(model):
        asked = f"{type(part).__module__}.{type(part).__qualname__}" in text or f"'{type(part).__name__}'" in text
        if asked and ("shape calculator" in text or "converter" in text.lower()):
            where = f" (step {name})" if name else ""
            return Refused(
                f"skl2onnx has no converter for {type(part).__name__}{where}",
                "replace that estimator by one that skl2onnx.supported_converters() lists",
            )
    return Refused(f"skl2onnx on {type(model).__name__}: {text.partition(' You may raise')[0]}")


def _types(inputs, dynamic, *, double):
    from skl2onnx.common import data_types

    typed = []
    for name, array in inputs.items():
        word = ("double" if double else "float") if array.dtype.kind == "f" else array.dtype.name
        maker = getattr(data_types, TYPES.get(word, "StringTensorType"))
        axes = axes_of(dynamic, name)
        typed.append((name, maker([None if axis in axes else size for axis, size in enumerate(array.shape)])))
    return typed


def _options(model):
    """Plain tensors instead of a list of maps, scores where there are no probabilities, and scaling as numpy rounds it."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    allowed = _allowed(last)
    chosen = {}
    if "zipmap" in allowed:
        chosen["zipmap"] = False
    if "raw_scores" in allowed and not hasattr(last, "predict_proba"):
        chosen["raw_scores"] = True
    options = {id(part): chosen for part in (last, model)} if chosen else {}
    for _, part in _named_parts(model):
        options.update({id(part): PART_OPTIONS[type(part).__name__]} if type(part).__name__ in PART_OPTIONS else {})
    return options or None


def _allowed(estimator):
    """The options that its converter takes; none if it has no converter, which the conversion itself will say."""
    from skl2onnx._supported_operators import _get_sklearn_operator_name
    from skl2onnx.common._registration import get_converter

    try:
        return get_converter(_get_sklearn_operator_name(type(estimator))).get_allowed_options() or {}
    except (ValueError, KeyError, RuntimeError):
        return {}


@contextlib.contextmanager
def _unpacked(model):
    """Inside, no part of the estimator has a packing that skl2onnx declines."""
    changed = []
    for _, part in _named_parts(model):
        name, packed, plain = PACKING.get(type(part).__name__, ("", None, None))
        if name and getattr(part, name) == packed:
            changed.append((part, name, packed))
            setattr(part, name, plain)
    try:
        yield
    finally:
        for part, name, packed in changed:
            setattr(part, name, packed)


def _named_parts(model, name=""):
    """(path of names, estimator) for the estimator and every fitted one inside it."""
    yield name, model
    for label, part in _inside(model):
        if hasattr(part, "fit") and not isinstance(part, type):
            yield from _named_parts(part, f"{name}__{label}" if name else label)


def _inside(model):
    """The fitted parts. What a ColumnTransformer or an ensemble was built with are not they, but their templates."""
    for name in ("steps", "transformer_list", "transformers_"):
        for entry in getattr(model, name, None) or ():
            yield entry[0], entry[1]
    several = getattr(model, "estimators_", None)
    if isinstance(several, (list, numpy.ndarray)):
        yield from ((str(index), part) for index, part in enumerate(numpy.ravel(numpy.asarray(several, dtype=object))))
    for name in ("estimator_", "best_estimator_", "final_estimator_", "regressor_"):
        if hasattr(model, name):
            yield name.rstrip("_"), getattr(model, name)
