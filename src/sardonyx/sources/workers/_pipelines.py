"""Our own converters, which skl2onnx calls for the parts of a pipeline: boosters, trees of histograms, texts, transformers."""

import contextlib
import functools
from unittest import mock

import numpy
from onnx import helper

from ._boosters import ensemble_of, is_classifier, library
from ._ensemble import from_histograms
from ._one_hot import graph_of_one_hot
from ._transformers import GRAPHS, graph_of_transformer, width_of_imputer
from ._tree_graph import graph_of
from ._vectorizers import graph_of_texts, takes

HISTOGRAMS = ("SklearnHistGradientBoostingClassifier", "SklearnHistGradientBoostingRegressor")
VERSIONS = {"ai.onnx.ml": 3, "com.microsoft": 1}


@contextlib.contextmanager
def our_converters(parts):
    """Inside, skl2onnx converts the boosters among the parts, and uses our converters where its own lose something."""
    from skl2onnx import _parse, _supported_operators
    from skl2onnx.common import _registration

    pools = (
        _registration._converter_pool, _registration._shape_calculator_pool, _supported_operators.sklearn_operator_name_map,
        _parse.sklearn_parsers_map,
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        for pool in pools:
            stack.enter_context(mock.patch.dict(pool))  # as it was, afterwards
        for cls in {type(part) for part in parts if library(part) != "sklearn"}:
            _register(cls)
        for name in HISTOGRAMS:
            _replace(name, convert_histograms)
        for name, graph_for in OURS.items():
            _replace(name, _ours_first(name, graph_for))
        shapes = _registration._shape_calculator_pool
        shapes["SklearnSimpleImputer"] = _imputer_shapes(shapes["SklearnSimpleImputer"])
        shapes.update({name: _frame_shapes(shapes[name]) for name in HISTOGRAMS})
        yield


def _register(cls):
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator

    classifier = hasattr(cls, "predict_proba")
    shapes = f"calculate_linear_{'classifier' if classifier else 'regressor'}_output_shapes"
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]} if classifier else None
    update_registered_converter(
        cls,
        "Sardonyx" + cls.__name__,
        getattr(shape_calculator, shapes),
        convert_booster,
        overwrite=True,
        parser=_parse_classifier if classifier else None,
        options=options,
    )


def _parse_classifier(scope, model, inputs, custom_parsers=None):
    """Two outputs. skl2onnx's own parser finds classifiers by a base class that CatBoost's do not have."""
    from skl2onnx._supported_operators import _get_sklearn_operator_name
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(_get_sklearn_operator_name(type(model)), model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable("probabilities", guess_tensor_type(inputs[0].type)))
    return operator.outputs


def _replace(name, convert):
    """Gives an operator of skl2onnx another converter, with the options of its own."""
    from skl2onnx.common import _registration

    options = _registration._converter_pool[name].get_allowed_options()
    _registration._converter_pool[name] = _registration.RegisteredConverter(convert, options)


def _ours_first(name, graph_for):
    """A converter that adds our graph, and calls skl2onnx's own where there is none for the settings of an estimator."""
    from skl2onnx.common import _registration

    original = _registration._converter_pool[name]

    def convert(scope, operator, container):
        graph = graph_for(operator)
        if graph is None:
            original(scope, operator, container)
        else:
            _embed(graph, scope, operator, container)

    return convert


def _texts(operator, *, weighted):
    vectorizer = operator.raw_operator
    return graph_of_texts(vectorizer, weighted=weighted) if takes(vectorizer) else None


def _transformer(operator):
    kinds = {type(value.type).__name__ for value in operator.inputs}
    if len(kinds) > 1 or not kinds <= {"FloatTensorType", "DoubleTensorType"}:
        return None
    return graph_of_transformer(operator.raw_operator, double=kinds == {"DoubleTensorType"})


def _one_hot(operator):
    inputs = [(type(value.type).__name__, _width(value.type.shape)) for value in operator.inputs]
    if len(inputs) == 1:
        inputs = [(inputs[0][0], operator.raw_operator.n_features_in_)]
    return graph_of_one_hot(operator.raw_operator, inputs, type(operator.outputs[0].type).__name__)


# The operators of skl2onnx for which there is a graph of our own, at least for some settings.
OURS = {
    "SklearnCountVectorizer": functools.partial(_texts, weighted=False),
    "SklearnTfidfVectorizer": functools.partial(_texts, weighted=True),
    "SklearnOneHotEncoder": _one_hot,
    **{"Sklearn" + name: _transformer for name in GRAPHS},
}


def _width(shape):
    """The columns of a shape; none where it does not say."""
    return shape[1] if len(shape) > 1 and isinstance(shape[1], int) else 0


def _imputer_shapes(original):
    def calculate_imputer_shapes(operator):
        original(operator)
        if type(operator.outputs[0].type).__name__ in ("FloatTensorType", "DoubleTensorType"):
            operator.outputs[0].type.shape[1] = width_of_imputer(operator.raw_operator)

    return calculate_imputer_shapes


def _frame_shapes(original):
    """skl2onnx's shapes for one input, and the same for the columns of a frame."""

    def calculate_frame_shapes(operator):
        from skl2onnx.common import data_types

        if len(operator.inputs) == 1:
            return original(operator)
        double = any(isinstance(value.type, data_types.DoubleTensorType) for value in operator.inputs)
        floats = data_types.DoubleTensorType if double else data_types.FloatTensorType
        rows, model = operator.inputs[0].get_first_dimension(), operator.raw_operator
        if is_classifier(model):
            words = numpy.asarray(model.classes_).dtype.kind in "OUS"
            labels = data_types.StringTensorType if words else data_types.Int64TensorType
            operator.outputs[0].type = labels([rows])
        operator.outputs[-1].type = floats([rows, len(model.classes_) if is_classifier(model) else 1])
        return None

    return calculate_frame_shapes


def convert_booster(scope, operator, container):
    """Puts the graph of a booster into skl2onnx's container."""
    _convert_trees(ensemble_of(operator.raw_operator), scope, operator, container)


def convert_histograms(scope, operator, container):
    """Puts the graph of a histogram gradient boosting into skl2onnx's container."""
    _convert_trees(from_histograms(operator.raw_operator), scope, operator, container)


def _convert_trees(ensemble, scope, operator, container):
    model = operator.raw_operator
    classes = numpy.asarray(model.classes_) if is_classifier(model) else None
    double = any(type(value.type).__name__ == "DoubleTensorType" for value in operator.inputs)
    opset = container.target_opset_any_domain("")
    several = len(operator.inputs) > 1 and ensemble.words
    names = [f"X{place}" for place in range(ensemble.width)] if several else ["X"]
    made = graph_of(ensemble, classes=classes, opset=opset, double=double, inputs=names)
    _embed(made.graph, scope, operator, container)


def stamp(model):
    """Gives a graph whose trees ask for sets of categories the version that has such trees; skl2onnx knows none above 3."""
    if any(node.op_type == "TreeEnsemble" for node in model.graph.node):
        for entry in model.opset_import:
            entry.version = 5 if entry.domain == "ai.onnx.ml" else entry.version


def _embed(graph, scope, operator, container):
    """Adds the nodes of a graph to skl2onnx's container, under names of their own. One input takes all of the operator's."""
    from skl2onnx.operator_converters.common import concatenate_variables

    given = [value.full_name for value in operator.inputs]
    if len(graph.input) == 1 and len(given) > 1:  # columns of a table
        given = [concatenate_variables(scope, operator.inputs, container)]
    names = dict(zip((value.name for value in graph.input), given))
    names.update(zip((value.name for value in graph.output), (value.full_name for value in operator.outputs)))
    for tensor in graph.initializer:
        names[tensor.name] = tensor.name = scope.get_unique_variable_name("sardonyx_" + tensor.name)
        container.initializers.append(tensor)
    for node in graph.node:
        for output in node.output:
            if output not in names:
                names[output] = scope.get_unique_variable_name("sardonyx_" + output)
        container.add_node(
            node.op_type,
            [names[name] for name in node.input],
            [names[name] for name in node.output],
            op_domain=node.domain,
            op_version=VERSIONS.get(node.domain, container.target_opset_any_domain("")),
            name=scope.get_unique_operator_name("sardonyx"),
            **{attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute},
        )
