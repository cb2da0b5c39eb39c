"""Faults of skl2onnx in scikit-learn's trees, mended while it runs: missing values and thresholds."""

import contextlib
from importlib import import_module
from unittest import mock

import numpy
from onnx import TensorProto

TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")
ROUNDING = ("DecisionTree", "ExtraTree", "RandomForest", "GradientBoosting", "IsolationForest")
CONVERTERS = ("decision_tree", "random_forest", "gradient_boosting", "isolation_forest")
LARGEST = numpy.finfo(numpy.float32).max


@contextlib.contextmanager
def mended():
    """Inside, trees keep the side to which they send a missing value, their rounding, and a split on missing or not."""
    trees = import_module("skl2onnx.common.tree_ensemble")
    add_tree, threshold = trees.add_tree_to_attribute_pairs, trees.sklearn_threshold

    def add_tree_with_sides(pairs, is_classifier, tree, *arguments, **options):
        add_tree(pairs, is_classifier, tree, *arguments, **options)
        pairs["nodes_missing_value_tracks_true"][-tree.node_count :] = _sides(tree)

    def finite_threshold(value, dtype, mode):
        # The search for the next float32 never ends at infinity, where every number goes left.
        return threshold(value, dtype, mode) if numpy.isfinite(value) else numpy.float64(LARGEST)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(trees, "sklearn_threshold", finite_threshold))
        stack.enter_context(_rounding_trees())
        for name in CONVERTERS:
            module = import_module("skl2onnx.operator_converters." + name)
            if getattr(module, "add_tree_to_attribute_pairs", None) is add_tree:
                stack.enter_context(mock.patch.object(module, "add_tree_to_attribute_pairs", add_tree_with_sides))
            if hasattr(module, "populate_tree_attributes"):
                whole = _with_sides(module.populate_tree_attributes, finite_threshold)
                stack.enter_context(mock.patch.object(module, "populate_tree_attributes", whole))
        yield


@contextlib.contextmanager
def _rounding_trees():
    """Inside, trees of scikit-learn in float64 compare what is left of their input in float32, as they do themselves."""
    registration = import_module("skl2onnx.common._registration")
    pool = registration._converter_pool
    with mock.patch.dict(pool):
        for name in [name for name in pool if any(word in name for word in ROUNDING) and "Hist" not in name]:
            converter = pool[name]
            pool[name] = registration.RegisteredConverter(_rounding(converter), converter.get_allowed_options())
        yield


def _rounding(convert):
    def convert_rounding(scope, operator, container):
        if type(operator.inputs[0].type).__name__ != "DoubleTensorType":
            return convert(scope, operator, container)
        add_node = container.add_node

        def add_rounding_node(op_type, inputs, outputs, *arguments, **options):
            if op_type not in TREES:
                return add_node(op_type, inputs, outputs, *arguments, **options)
            rounded, single = (scope.get_unique_variable_name(name) for name in ("rounded", "single"))
            *labels, scores = outputs if isinstance(outputs, list) else [outputs]
            add_node("Cast", inputs, rounded, to=TensorProto.FLOAT, op_version=13)
            add_node(op_type, rounded, [*labels, single], *arguments, **options)
            return add_node("Cast", single, scores, to=TensorProto.DOUBLE, op_version=13)

        with mock.patch.object(container, "add_node", add_rounding_node):
            return convert(scope, operator, container)

    return convert_rounding


def _with_sides(populate, threshold):
    """The attributes of the path that skl2onnx takes for several targets, which rounds thresholds to the nearest float32."""

    def populate_with_sides(model, name, dtype):
        pairs = populate(model, name, dtype)
        pairs["nodes_missing_value_tracks_true"] = _sides(model.tree_)
        pairs["nodes_values"] = [threshold(value, numpy.float32, "BRANCH_LEQ") for value in pairs["nodes_values"]]
        return pairs

    return populate_with_sides


def _sides(tree):
    """1 for every node that sends a missing value to the left; releases before 1.3 have no such nodes."""
    return [int(side) for side in getattr(tree, "missing_go_to_left", [0] * tree.node_count)]
