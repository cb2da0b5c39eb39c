"""The ONNX graph of an ensemble: one tree operator, the link function, and the outputs of a classifier or a regressor."""

import math

import numpy
from onnx import TensorProto, helper, numpy_helper

from ._ensemble import LIGHTGBM_ZERO, Split
from ._estimators import Refused

IR_VERSION = 8
MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_MEMBER": 6}  # of the operator TreeEnsemble


def graph_of(ensemble, *, classes, opset, double, inputs):
    """The model. With `classes` it gives `label` and `probabilities`, without them `prediction`.

    `inputs` has one name, of a table of numbers, or one for each column of a frame, in which categories are words.
    """
    if not ensemble.leaves and ensemble.coefficients is None:
        raise Refused("the model has no trees", "train it first")
    build = Builder(TensorProto.DOUBLE if double else TensorProto.FLOAT)
    table = inputs[0] if len(inputs) == 1 else _coded(build, ensemble, inputs)
    scores = _scores(build, ensemble, _cleaned(build, ensemble, table))
    if classes is None:
        outputs = [(build.rename(_linked(build, ensemble, scores), "prediction"), build.kind)]
    else:
        outputs = _classified(build, ensemble, scores, classes)
    graph = helper.make_graph(
        build.nodes,
        "trees",
        _taken(build, ensemble, inputs),
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        build.constants,
    )
    ml = 5 if ensemble.categorical() else 3
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="sardonyx")


def _taken(build, ensemble, inputs):
    if len(inputs) == 1:
        return [helper.make_tensor_value_info(inputs[0], build.kind, ["batch", ensemble.width])]
    kinds = [
        TensorProto.STRING if is_of_words(ensemble.words.get(place)) else build.kind for place in range(len(inputs))
    ]
    return [helper.make_tensor_value_info(name, kind, ["batch", 1]) for name, kind in zip(inputs, kinds)]


def is_of_words(categories):
    """Whether a column's categories are words; others are numbers of the user's own."""
    return bool(categories) and isinstance(categories[0], str)


def _coded(build, ensemble, inputs):
    """The columns of a frame as one table, in which a category is its code and an unknown one is missing."""
    columns = []
    for place, name in enumerate(inputs):
        known = ensemble.words.get(place)
        if is_of_words(known):
            codes = {"keys_strings": known, "values_floats": [float(code) for code in range(len(known))]}
            column = build.add("LabelEncoder", name, domain="ai.onnx.ml", default_float=math.nan, **codes)
            columns.append(build.add("Cast", column, to=build.kind) if build.kind != TensorProto.FLOAT else column)
        elif known:
            same = build.add("Cast", build.add("Equal", name, build.constant([known])), to=build.kind)
            code = build.add("MatMul", same, build.constant([[code] for code in range(len(known))]))
            count = build.add("ReduceSum", same, build.constant([1], numpy.int64), keepdims=1)
            columns.append(
                build.add("Where", build.add("Greater", count, build.constant(0.0)), code, build.constant(math.nan))
            )
        else:
            columns.append(name)
    return build.add("Concat", *columns, axis=1)


class Builder:
    """Collects nodes and constants of one float type, with names that are never used twice."""

    def __init__(self, kind):
        self.kind = kind
        self.dtype = numpy.float64 if kind == TensorProto.DOUBLE else numpy.float32
        self.nodes, self.constants, self.count = [], [], 0

    def add(self, op_type, *inputs, domain="", outputs=1, **attributes):
        """Adds a node, and gives the name of its output, or a list of several."""
        self.count += 1
        names = [f"{op_type.lower()}_{self.count}{'_' * place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, values, dtype=None):
        name = f"constant_{len(self.constants)}"
        array = numpy.asarray(values, dtype=object if dtype is object else (dtype or self.dtype))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def rename(self, tensor, name):
        """Gives a tensor another name wherever it is made or read."""
        for node in self.nodes:
            node.input[:] = [name if held == tensor else held for held in node.input]
            node.output[:] = [name if held == tensor else held for held in node.output]
        return name


def _cleaned(build, ensemble, tensor):
    """The input as the library has it: rounded, the user's mark for a missing value as NaN, categories cut to whole numbers."""
    if ensemble.rounds and build.kind == TensorProto.DOUBLE:
        tensor = build.add("Cast", build.add("Cast", tensor, to=TensorProto.FLOAT), to=TensorProto.DOUBLE)
    nan = build.constant(math.nan)
    if not math.isnan(ensemble.missing):
        marked = build.add("Equal", tensor, build.constant(ensemble.missing))
        tensor = build.add("Where", marked, nan, tensor)
    if ensemble.zero_is_missing:
        nearly = build.add("LessOrEqual", build.add("Abs", tensor), build.constant(LIGHTGBM_ZERO))
        zero = build.add("And", nearly, _chosen(build, ensemble, ensemble.zero_is_missing))
        tensor = build.add("Where", zero, nan, tensor)
    if ensemble.categorical() and not ensemble.whole:
        # onnxruntime cuts a number to a whole one before it looks for it in a set.
        cut = build.add("Not", build.add("Equal", tensor, build.add("Floor", tensor)))
        part = build.add("And", cut, _chosen(build, ensemble, ensemble.with_whole_members()))
        tensor = build.add("Where", part, nan, tensor)
    if ensemble.categorical() and ensemble.whole:
        mask = _chosen(build, ensemble, ensemble.categorical())
        whole = build.add("Floor", build.add("Abs", tensor) if ensemble.truncates else tensor)
        if ensemble.truncates:
            whole = build.add("Mul", build.add("Sign", tensor), whole)
        tensor = build.add("Where", mask, whole, tensor)
    return tensor


def _chosen(build, ensemble, features):
    return build.constant(numpy.isin(numpy.arange(ensemble.width), list(features)), bool)


def _scores(build, ensemble, tensor):
    """The summed scores [batch, groups]."""
    if ensemble.coefficients is not None:  # a linear booster leaves a missing value out of its sum
        known = build.add("Where", build.add("IsNaN", tensor), build.constant(0.0), tensor)
        total = build.add("MatMul", known, build.constant(ensemble.coefficients))
    elif ensemble.categorical():
        total = build.add("TreeEnsemble", tensor, domain="ai.onnx.ml", **_attributes_with_sets(build, ensemble))
    else:
        total = build.add("TreeEnsembleRegressor", tensor, domain="ai.onnx.ml", **_attributes(build, ensemble))
        if build.kind == TensorProto.DOUBLE:
            total = build.add("Cast", total, to=build.kind)
    if ensemble.divisor != 1:
        total = build.add("Div", total, build.constant(float(ensemble.divisor)))
    return build.add("Add", total, build.constant([ensemble.base]))


def _attributes(build, ensemble):
    """Attributes of TreeEnsembleRegressor, in which a leaf is a node."""
    ends = dict.fromkeys((leaf.tree, leaf.node) for leaf in ensemble.leaves)
    nodes = [*ensemble.splits, *(Split(tree, node, 0, "LEAF", 0.0, 0, 0, False) for tree, node in ends)]
    nodes.sort(key=lambda split: (split.tree, split.node))
    values = [_rounded(build, split) for split in nodes]
    weights = [leaf.weight for leaf in ensemble.leaves]
    if build.kind == TensorProto.DOUBLE:
        exact = {
            "nodes_values_as_tensor": _tensor(values, build.dtype),
            "target_weights_as_tensor": _tensor(weights, build.dtype),
        }
    else:
        exact = {"nodes_values": list(map(float, values)), "target_weights": list(map(float, weights))}
    return {
        **exact,
        "n_targets": ensemble.groups,
        "nodes_treeids": [split.tree for split in nodes],
        "nodes_nodeids": [split.node for split in nodes],
        "nodes_modes": [split.mode for split in nodes],
        "nodes_featureids": [split.feature for split in nodes],
        "nodes_truenodeids": [split.true for split in nodes],
        "nodes_falsenodeids": [split.false for split in nodes],
        "nodes_missing_value_tracks_true": [int(split.missing) for split in nodes],
        "target_treeids": [leaf.tree for leaf in ensemble.leaves],
        "target_nodeids": [leaf.node for leaf in ensemble.leaves],
        "target_ids": [leaf.group for leaf in ensemble.leaves],
    }


def _attributes_with_sets(build, ensemble):
    """Attributes of TreeEnsemble, whose splits may ask for membership in a set, and whose leaves are a list of their own."""
    leaves = {(leaf.tree, leaf.node): index for index, leaf in enumerate(ensemble.leaves)}
    if len(leaves) < len(ensemble.leaves):
        raise Refused("trees with categories and several values in one leaf have no operator in ONNX")
    splits = {(split.tree, split.node): split for split in ensemble.splits}
    for tree, node in leaves:  # a tree that is one leaf still needs a split
        if node == 0:
            splits[tree, 0] = Split(tree, 0, 0, "BRANCH_LEQ", 0.0, 0, 0, False)
    order = {key: index for index, key in enumerate(sorted(splits))}
    nodes = [splits[key] for key in order]

    def child(tree, node):
        """The number of a child, and whether it is a leaf."""
        return (leaves[tree, node], 1) if (tree, node) in leaves else (order[tree, node], 0)

    true = [child(split.tree, split.true) for split in nodes]
    false = [child(split.tree, split.false) for split in nodes]
    members = [[*split.value, math.nan] for split in nodes if split.mode == "BRANCH_MEMBER"]
    limits = [0.0 if split.mode == "BRANCH_MEMBER" else _rounded(build, split) for split in nodes]
    return {
        "n_targets": ensemble.groups,
        "tree_roots": [index for (_, node), index in order.items() if node == 0],
        "nodes_featureids": [split.feature for split in nodes],
        "nodes_modes": _tensor([MODES[split.mode] for split in nodes], numpy.uint8),
        "nodes_splits": _tensor(limits, build.dtype),
        "membership_values": _tensor([value for values in members for value in values], build.dtype),
        "nodes_truenodeids": [number for number, _ in true],
        "nodes_trueleafs": [is_leaf for _, is_leaf in true],
        "nodes_falsenodeids": [number for number, _ in false],
        "nodes_falseleafs": [is_leaf for _, is_leaf in false],
        "nodes_missing_value_tracks_true": [int(split.missing) for split in nodes],
        "leaf_targetids": [leaf.group for leaf in ensemble.leaves],
        "leaf_weights": _tensor([leaf.weight for leaf in ensemble.leaves], build.dtype),
    }


def _rounded(build, split):
    """The threshold in the graph's float type, such that every float32 still falls on the same side."""
    if build.kind == TensorProto.DOUBLE or split.mode != "BRANCH_LEQ":
        return split.value
    near = numpy.float32(split.value)
    # As Python floats: numpy would first round the threshold to float32, and find them equal.
    return near if float(near) <= split.value else numpy.nextafter(near, numpy.float32(-math.inf))


def _tensor(values, dtype):
    return numpy_helper.from_array(numpy.asarray(values, dtype))


def _linked(build, ensemble, scores):
    """The prediction, as the booster itself gives it."""
    return LINKS[ensemble.link](build, ensemble, scores)


def _sigmoid(build, ensemble, scores):
    if ensemble.slope != 1.0:
        scores = build.add("Mul", scores, build.constant(ensemble.slope))
    return build.add("Sigmoid", scores)


def _argmax(build, ensemble, scores):
    return build.add("Cast", build.add("ArgMax", scores, axis=1, keepdims=1), to=build.kind)


def _step(build, ensemble, scores):
    return build.add("Cast", build.add("Greater", scores, build.constant(0.0)), to=build.kind)


def _mean_and_variance(build, ensemble, scores):
    """The first score as it is; the second is the logarithm of a standard deviation."""
    mean, spread = (build.add("Gather", scores, build.constant([n], numpy.int64), axis=1) for n in (0, 1))
    variance = build.add("Exp", build.add("Mul", spread, build.constant(2.0)))
    return build.add("Concat", mean, variance, axis=1)


LINKS = {
    "mean and variance": _mean_and_variance,
    "identity": lambda build, ensemble, scores: build.add("Identity", scores),
    "sigmoid": _sigmoid,
    "exp": lambda build, ensemble, scores: build.add("Exp", scores),
    "softmax": lambda build, ensemble, scores: build.add("Softmax", scores, axis=1),
    "softplus": lambda build, ensemble, scores: build.add("Softplus", scores),
    "signed square": lambda build, ensemble, scores: build.add("Mul", scores, build.add("Abs", scores)),
    "argmax": _argmax,
    "step": _step,
}


def _classified(build, ensemble, scores, classes):
    """`label` and `probabilities` of a classifier."""
    if ensemble.groups > 1 and ensemble.link == "argmax":
        probabilities = build.add("Softmax", scores, axis=1)
    else:
        probabilities = _linked(build, ensemble, scores)
    if ensemble.groups == 1:
        other = build.add("Sub", build.constant(1.0), probabilities)
        # Above one half is the second class; at one half it is the first.
        index = build.add("Cast", build.add("Greater", probabilities, build.constant(0.5)), to=TensorProto.INT64)
        index = build.add("Reshape", index, build.constant([-1], numpy.int64))
        probabilities = build.add("Concat", other, probabilities, axis=1)
    else:
        index = build.add("ArgMax", probabilities, axis=1, keepdims=0)
    words = classes.dtype.kind in "OUS"
    names = build.constant(classes.astype(object) if words else classes, object if words else numpy.int64)
    label = build.add("Gather", names, index)
    kind = TensorProto.STRING if words else TensorProto.INT64
    return [(build.rename(label, "label"), kind), (build.rename(probabilities, "probabilities"), build.kind)]
