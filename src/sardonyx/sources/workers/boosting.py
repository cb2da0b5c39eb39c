"""Opens XGBoost, LightGBM and CatBoost models, asks them and exports them; see _harness.py."""

import os
import tempfile
import warnings

import numpy

from . import _estimators, _skl2onnx
from ._boosters import columns_of, ensemble_of, inputs_of, is_classifier, library, table_of, width_of
from ._boosters import predict as ask
from ._ensemble import plain_message
from ._estimators import Refused, as_precise_as
from ._interface import axes_of, settle
from ._landmarks import spread
from ._spaces import named_columns, paths
from ._telling import add_paths, as_type, by_input, draw, holes, precision, strings_of, takes_infinity, typed
from ._tree_graph import graph_of

DISTRIBUTIONS = ("xgboost", "xgboost-cpu", "lightgbm", "catboost", "onnxmltools", "skl2onnx", "onnx", "scikit-learn")


def adopt(model, source):
    """The model, if it is one of ours and has been fitted."""
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class; give a fitted model")
    if library(model) == "sklearn":
        return _estimators.adopt(model, source)
    if source.get("weights"):
        raise ValueError("a booster carries its own parameters; leave --weights out")
    if not _is_fitted(model):
        raise Refused(f"this {type(model).__name__} has not been fitted", "call fit, or load a fitted one")
    return model


def load(source):
    """The model in a file of its library, or in a pickle. A classifier comes back as one where the file says so."""
    path = source["path"]
    if source["form"].startswith("pickle"):
        import joblib

        return adopt(joblib.load(path), source)
    return adopt(LOADERS[source["form"]](path), source)


def describe(model):
    """Inputs, outputs, the objective and link, and what the inputs may hold; see _telling.py."""
    if library(model) == "sklearn":
        return _estimators.describe(model)
    inputs = inputs_of(model)
    told, known = {}, {"landmarks": {"X": [[]] * width_of(model)}}
    try:
        ensemble = ensemble_of(model)
    except Refused:  # the routes say why
        pass
    else:
        told = {"objective": ensemble.objective, "link": ensemble.link, "base": ensemble.base}
        known = _known(ensemble, model, inputs)

    def ask(rows):
        return _estimators.tried(predict, model, rows)

    kinds = precision(model, inputs, known, ask)
    rows = as_type(draw(inputs, known, 2), kinds[0])
    missing = holes(inputs, rows, ask)
    return {
        "inputs": typed(inputs, kinds),
        "outputs": [
            {"name": name} for name in (("label", "probabilities") if is_classifier(model) else ("prediction",))
        ],
        "framework": library(model),
        "estimator": type(model).__name__,
        "columns": columns_of(model),
        "kind": "classifier" if is_classifier(model) else "regressor",
        "decided_by": {"label": "probabilities"} if is_classifier(model) else {},
        "allow_nan": bool(missing),
        "missing": missing,
        "infinite": takes_infinity(inputs, rows, ask),
        "example": {} if ask(rows) is None else {name: array.tolist() for name, array in rows.items()},
        **told,
        **known,
    }


def _known(ensemble, model, inputs):
    """The values at which an ensemble turns, the categories that it asks for, and rows that reach its leaves."""
    turns, codes = ([set() for _ in range(ensemble.width)] for _ in range(2))
    for feature, value in ensemble.thresholds():
        turns[feature].add(float(value))
    for split in ensemble.splits:
        if split.mode == "BRANCH_MEMBER":
            codes[split.feature].update(map(float, split.value))
    columns = named_columns(inputs)
    known = {"landmarks": by_input(columns, [spread(values) for values in turns])}
    if any(codes) or ensemble.words:
        lists = [ensemble.words.get(place) or sorted(values) for place, values in enumerate(codes)]
        known["categories"] = by_input(columns, lists)
        known["texts"] = strings_of(inputs, known["categories"])
    add_paths(known, paths(model, inputs))
    return known


def predict(model, inputs, *, double=False):
    """The model's own answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library(model) == "sklearn":
            return _estimators.predict(model, inputs, double=double)
        if double:
            raise NotImplementedError(f"{library(model)} computes in a precision of its own whatever it is given")
        return as_precise_as(inputs, ask(model, inputs), single=True)


def prepare(model, inputs, **_):
    """A call that asks for the probabilities of a classifier, from which its labels follow, or for the prediction."""
    if library(model) == "sklearn":
        return _estimators.prepare(model, inputs)
    table = table_of(model, inputs)
    return (lambda: model.predict_proba(table)) if is_classifier(model) else lambda: ask(model, inputs)


def export(model, route, out, *, inputs, dynamic, opset, input_names=(), output_names=(), training=False):
    """Writes the model as ONNX by one route."""
    import onnx

    if training:
        raise Refused("a booster has no training form in ONNX", "leave --training out")
    if library(model) == "sklearn":
        through = {"trees": "skl2onnx", "trees-double": "skl2onnx-double"}.get(route)
        if through is None:
            raise Refused(f"{type(model).__name__} is a scikit-learn estimator, which the route {route} does not take")
        return _skl2onnx.export(
            model, through, out, inputs=inputs, dynamic=dynamic, opset=opset, output_names=output_names
        )
    answers = predict(model, inputs)
    exported, newest = ROUTES[route](model, inputs, dynamic, opset)
    settle(exported, answers, inputs=inputs, dynamic=dynamic, opset=newest, output_names=output_names)
    onnx.save(exported, out)
    return {"opset": newest}


def _is_fitted(model):
    if library(model) == "catboost":
        return model.is_fitted()
    if library(model) == "xgboost" and hasattr(model, "__sklearn_is_fitted__"):
        return model.__sklearn_is_fitted__()
    return getattr(model, "fitted_", True)


def _by_trees(model, inputs, dynamic, opset, double=False):
    """Our own graph: read from the library's dump, so every objective, booster and category is kept."""
    classes = numpy.asarray(model.classes_) if is_classifier(model) else None
    return graph_of(ensemble_of(model), classes=classes, opset=opset, double=double, inputs=list(inputs)), opset


def _by_onnxmltools(model, inputs, dynamic, opset):
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    if library(model) == "catboost":
        raise Refused("onnxmltools takes no CatBoost models", "use --route trees or catboost")
    if len(inputs) > 1:
        raise Refused("onnxmltools loses the categories of a data frame", "use --route trees")
    ((name, array),) = inputs.items()
    axes = axes_of(dynamic, name)
    types = [(name, FloatTensorType([None if axis in axes else size for axis, size in enumerate(array.shape)]))]
    newest = min(opset, onnxmltools.convert.common.onnx_ex.get_maximum_opset_supported())
    try:
        if library(model) == "xgboost":
            exported = onnxmltools.convert_xgboost(model, initial_types=types, target_opset=newest)
        else:
            exported = onnxmltools.convert_lightgbm(model, initial_types=types, target_opset=newest, zipmap=False)
    except Exception as error:
        raise _onnxmltools_refusal(model, error) from error
    if not is_classifier(model) and len(exported.graph.output) == 2:
        _keep_probabilities(exported, ensemble_of(model).groups)
    return exported, newest


def _onnxmltools_refusal(model, error):
    if "gbtree_model_param" in str(error):
        return Refused("onnxmltools takes the booster gbtree only", "use --route trees")
    said = plain_message(str(error).partition("Stack trace")[0])
    return Refused(f"onnxmltools on {type(model).__name__}: {said or type(error).__name__}")


def _keep_probabilities(exported, groups):
    """A booster that was exported as a classifier gets back its one output."""
    from onnx import helper

    graph = exported.graph
    del graph.output[0]
    if groups == 1:
        inputs = [graph.output[0].name, "second_class"]
        graph.node.append(helper.make_node("ArrayFeatureExtractor", inputs, ["of_second_class"], domain="ai.onnx.ml"))
        graph.initializer.append(helper.make_tensor("second_class", 7, [1], [1]))
        graph.output[0].name = "of_second_class"


def _by_catboost(model, inputs, dynamic, opset):
    import onnx

    if library(model) != "catboost":
        raise Refused(f"{type(model).__name__} is not a CatBoost model", "use --route trees")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        try:
            model.save_model(path, format="onnx")
        except Exception as error:
            raise Refused(f"CatBoost's own export: {plain_message(error)}") from error
        exported = onnx.load(path)
    from ._interface import rename

    rename(exported.graph, exported.graph.input[0].name, next(iter(inputs)))
    _drop_maps(exported.graph)
    return exported, opset


def _drop_maps(graph):
    """Takes the tensor in front of a ZipMap, which packs probabilities into a list of maps, as the output."""
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        for value in graph.output:
            if value.name == node.output[0]:
                value.name = node.input[0]
                value.type.Clear()
        graph.node.remove(node)


ROUTES = {
    "trees": _by_trees,
    "trees-double": lambda *arguments: _by_trees(*arguments, double=True),
    "onnxmltools": _by_onnxmltools,
    "catboost": _by_catboost,
}


def _load_xgboost(path):
    import xgboost

    booster = xgboost.Booster(model_file=path)
    if '"classifier"' not in (booster.attr("scikit_learn") or ""):
        return booster
    classifier = xgboost.XGBClassifier()
    classifier.load_model(path)
    return classifier


def _load_lightgbm(path):
    import lightgbm

    return lightgbm.Booster(model_file=path)


def _load_catboost(path):
    import catboost

    model = catboost.CatBoost()
    model.load_model(path)
    if "class_names" not in model.get_all_params() and not len(model.classes_):
        return model
    classifier = catboost.CatBoostClassifier()
    classifier.load_model(path)
    return classifier


LOADERS = {"xgboost": _load_xgboost, "lightgbm": _load_lightgbm, "catboost": _load_catboost}
