"""What a boosted ensemble computes, in one form for all libraries, and how to read it from each of them."""

import json
import math
import os
import re
import tempfile
from collections import namedtuple

import numpy

from ._estimators import Refused

# The function between the summed scores and the prediction, by objective. What is not listed is the identity.
XGBOOST_LINKS = {
    "binary:logistic": "sigmoid", "reg:logistic": "sigmoid", "count:poisson": "exp", "reg:gamma": "exp", "reg:tweedie": "exp",
    "survival:cox": "exp", "survival:aft": "exp", "binary:hinge": "step", "multi:softprob": "softmax", "multi:softmax": "argmax",
}  # fmt: skip
LIGHTGBM_LINKS = {
    "binary": "sigmoid", "cross_entropy": "sigmoid", "cross_entropy_lambda": "softplus", "poisson": "exp", "gamma": "exp",
    "tweedie": "exp", "multiclass": "softmax", "multiclassova": "sigmoid",
}  # fmt: skip
CATBOOST_LINKS = {
    "Logloss": "sigmoid", "CrossEntropy": "sigmoid", "MultiClass": "softmax", "MultiClassOneVsAll": "sigmoid",
    "Poisson": "exp", "Tweedie": "exp", "RMSEWithUncertainty": "mean and variance",
}  # fmt: skip
LIGHTGBM_ZERO = float(numpy.float32(1e-35))  # what is not larger, of either sign, is zero
HISTOGRAM_LINKS = {"IdentityLink": "identity", "LogLink": "exp", "LogitLink": "sigmoid", "MultinomialLogit": "softmax"}
# A starting score is kept as a prediction; this takes it back to a score.
INVERSE = {"sigmoid": lambda p: -math.log(1 / p - 1), "exp": math.log}


# Nodes are numbered within their tree. `value` is a threshold, or the members of a set; `true` and `false` are nodes;
# `missing` says whether a missing value counts as true.
Split = namedtuple("Split", "tree node feature mode value true false missing")
Leaf = namedtuple("Leaf", "tree node group weight")


class Ensemble:
    """Trees whose leaves are summed per group, a starting score per group, and the link to the prediction."""

    def __init__(self, width, groups, *, base, link, objective):
        self.width, self.groups, self.base, self.link, self.objective = width, groups, base, link, objective
        self.splits, self.leaves = [], []
        self.divisor = 1  # a random forest averages
        self.slope = 1.0  # of a sigmoid
        self.coefficients = None  # of a linear booster, [features, groups]
        self.missing = math.nan  # what the user said stands for a missing value
        self.words = {}  # {feature: its categories as the user's frame has them, in the order of their codes}
        self.rounds = False  # whether the library rounds its input to float32
        self.whole = True  # whether categories are cut to whole numbers
        self.truncates = False  # whether a category between -1 and 0 counts as 0, not as unknown
        self.zero_is_missing = set()  # the features in which a zero counts as missing

    def thresholds(self):
        """(feature, value) of every numeric split."""
        return [(split.feature, split.value) for split in self.splits if split.mode != "BRANCH_MEMBER"]

    def categorical(self):
        """The features that are asked for membership in a set."""
        return sorted({split.feature for split in self.splits if split.mode == "BRANCH_MEMBER"})

    def with_whole_members(self):
        """Of those features the ones whose sets hold whole numbers alone."""
        cut = {
            split.feature
            for split in self.splits
            if split.mode == "BRANCH_MEMBER" and any(value != int(value) for value in split.value)
        }
        return [feature for feature in self.categorical() if feature not in cut]


def from_xgboost(booster):
    """The ensemble in an XGBoost booster."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    shape, objective = learner["learner_model_param"], learner["objective"]["name"]
    groups = max(1, int(shape["num_class"]), int(shape.get("num_target", 1)))
    link = XGBOOST_LINKS.get(objective, "identity")
    scores = json.loads(shape["base_score"])
    scores = scores if isinstance(scores, list) else [scores]
    base = [INVERSE.get(link, float)(score) for score in scores * (groups if len(scores) == 1 else 1)]
    ensemble = Ensemble(int(shape["num_feature"]), groups, base=base, link=link, objective=objective)
    ensemble.rounds = True
    gradient = learner["gradient_booster"]
    if gradient["name"] == "gblinear":
        table = numpy.array(gradient["model"]["weights"], numpy.float64).reshape(-1, groups)
        ensemble.coefficients = table[:-1]
        ensemble.base = [score + bias for score, bias in zip(base, table[-1])]
        return ensemble
    model = gradient["gbtree"]["model"] if "gbtree" in gradient else gradient["model"]
    ensemble.words = _xgboost_words(model.get("cats") or {})
    weights = gradient.get("weight_drop") or [1.0] * len(model["trees"])
    for index, (tree, group, weight) in enumerate(zip(model["trees"], model["tree_info"], weights)):
        _add_xgboost_tree(ensemble, index, tree, group, weight)
    return ensemble


def _xgboost_words(cats):
    """{feature: categories}. Words are stored as one row of signed bytes with the place where each begins."""
    found = {}
    for feature, stored in enumerate(cats.get("enc") or ()):
        values = stored["values"]
        if values and "offsets" in stored:
            if min(values) < 0:  # it counts letters where it should count bytes
                raise Refused(
                    "XGBoost keeps only the beginning of categories with letters outside ASCII, so that they cannot be told",
                    "rename them, or encode them before the model",
                )
            text = bytes(values).decode()
            values = [text[start:end] for start, end in zip(stored["offsets"], stored["offsets"][1:])]
        if values:
            found[feature] = values
    return found


def _add_xgboost_tree(ensemble, index, tree, group, weight):
    members = _xgboost_members(tree)
    several = int(tree["tree_param"]["size_leaf_vector"])
    seen = 0
    for node, left in enumerate(tree["left_children"]):
        value = tree["split_conditions"][node]
        if left == -1:
            values = tree["leaf_weights"][seen : seen + several] if several > 1 else [value]
            seen += several
            for place, number in enumerate(values, group):
                ensemble.leaves.append(Leaf(index, node, place, numpy.float32(number) * numpy.float32(weight)))
            continue
        right, to_left = tree["right_children"][node], bool(tree["default_left"][node])
        feature = tree["split_indices"][node]
        if node in members:  # a member of the set goes right
            ensemble.splits.append(
                Split(index, node, feature, "BRANCH_MEMBER", members[node], right, left, not to_left)
            )
        else:
            ensemble.splits.append(Split(index, node, feature, "BRANCH_LT", numpy.float32(value), left, right, to_left))


def _xgboost_members(tree):
    """{node: its set of categories} of the categorical splits."""
    runs = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"])
    return {node: tree["categories"][start : start + size] for node, start, size in runs}


def from_lightgbm(booster):
    """The ensemble in a LightGBM booster, up to its best iteration."""
    dump = booster.dump_model()
    words = (dump.get("objective") or "none").split()
    options = dict(word.partition(":")[::2] for word in words[1:])
    groups = dump["num_tree_per_iteration"]
    link = "signed square" if "sqrt" in options else LIGHTGBM_LINKS.get(words[0], "identity")
    ensemble = Ensemble(dump["max_feature_idx"] + 1, groups, base=[0.0] * groups, link=link, objective=words[0])
    ensemble.slope = float(options.get("sigmoid", 1.0))
    ensemble.truncates = True
    ensemble.words = _lightgbm_words(booster)
    for index, tree in enumerate(dump["tree_info"]):
        _add_lightgbm_tree(ensemble, index, tree["tree_structure"], index % groups)
    if dump.get("average_output"):
        ensemble.divisor = max(1, len(dump["tree_info"]) // groups)
    return ensemble


def _lightgbm_words(booster):
    """{feature: categories} of the columns that were categories in the user's frame."""
    lists = booster.pandas_categorical or []
    if not lists:
        return {}
    said = re.search(r"^\[categorical_feature: ([\d,]*)\]$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    places = [int(place) for place in said[1].split(",")] if said and said[1] else []
    if len(places) != len(lists):
        raise Refused(
            "some of its categories are words of a data frame and some are numbers, and the model does not say which",
            "make all of them the frame's own categories: frame.astype({'column': 'category'})",
        )
    return dict(zip(places, lists))


def _add_lightgbm_tree(ensemble, index, root, group):
    waiting, count = [(root, 0)], 1
    while waiting:
        node, number = waiting.pop()
        if node.get("leaf_coeff"):
            raise Refused(
                "LightGBM's linear_tree keeps a linear model in each leaf, which no route takes", "train without it"
            )
        if "left_child" not in node:
            ensemble.leaves.append(Leaf(index, number, group, float(node["leaf_value"])))
            continue
        left, right, count = count, count + 1, count + 2
        waiting += [(node["left_child"], left), (node["right_child"], right)]
        feature = node["split_feature"]
        if node["decision_type"] == "==":
            members = [int(member) for member in str(node["threshold"]).split("||")]
            ensemble.splits.append(Split(index, number, feature, "BRANCH_MEMBER", members, left, right, False))
        else:
            value = _beside_zero(float(node["threshold"]))
            if node["missing_type"] == "Zero":
                ensemble.zero_is_missing.add(feature)
            # Without a side of its own a missing value counts as zero.
            to_left = value >= 0 if node["missing_type"] == "None" else node["default_left"]
            ensemble.splits.append(Split(index, number, feature, "BRANCH_LEQ", value, left, right, to_left))


def _beside_zero(threshold):
    """A threshold of LightGBM for which numbers that it takes as zero need no rounding to zero."""
    if -LIGHTGBM_ZERO <= threshold < 0:
        return math.nextafter(-LIGHTGBM_ZERO, -math.inf)
    return LIGHTGBM_ZERO if 0 <= threshold < LIGHTGBM_ZERO else threshold


def from_histograms(model):
    """The ensemble in a histogram gradient boosting of scikit-learn, with its categories as the user has them."""
    groups = model.n_trees_per_iteration_
    base = numpy.ravel(model._baseline_prediction).tolist()
    name = type(model._loss.link).__name__
    link = HISTOGRAM_LINKS[name]
    ensemble = Ensemble(model.n_features_in_, groups, base=base, link=link, objective=str(model.loss))
    ensemble.whole = False
    order, known = _histogram_columns(model)
    for feature, values in known.items():
        if values.dtype.kind in "OUST":
            ensemble.words[feature] = [value for value in values.tolist() if isinstance(value, str)]
            known[feature] = numpy.arange(len(ensemble.words[feature]))  # a missing one comes last, and has no code
    for index, (stage, group) in enumerate((stage, group) for stage in model._predictors for group in range(groups)):
        _add_histogram_tree(ensemble, index, stage[group], group, order, known)
    return ensemble


def _histogram_columns(model):
    """The place of each feature of the trees in the user's table, and {place: its categories in the order of their codes}."""
    encoder = getattr(model, "_preprocessor", None)
    if encoder is None and getattr(model, "is_categorical_", None) is None:
        return list(range(model.n_features_in_)), {}
    if encoder is None:
        raise Refused("categories of this release of scikit-learn are not understood", "use scikit-learn 1.4 or newer")
    flags = numpy.asarray(model.is_categorical_)
    places = [*numpy.flatnonzero(flags).tolist(), *numpy.flatnonzero(~flags).tolist()]
    lists = encoder.named_transformers_["encoder"].categories_
    return places, {place: numpy.asarray(values) for place, values in zip(places, lists)}


def _add_histogram_tree(ensemble, index, predictor, group, order, known):
    for number, node in enumerate(predictor.nodes):
        if node["is_leaf"]:
            ensemble.leaves.append(Leaf(index, number, group, float(node["value"])))
            continue
        feature, left, right = order[node["feature_idx"]], int(node["left"]), int(node["right"])
        to_left = bool(node["missing_go_to_left"])
        if not node["is_categorical"]:
            value = float(node["num_threshold"])
            ensemble.splits.append(Split(index, number, feature, "BRANCH_LEQ", value, left, right, to_left))
            continue
        bits = predictor.raw_left_cat_bitsets[node["bitset_idx"]]
        codes = [code for code in range(len(known[feature])) if int(bits[code // 32]) >> (code % 32) & 1]
        # An unknown category goes where a missing value goes: to the side that is not asked for.
        asked = [code for code in range(len(known[feature])) if (code in codes) != to_left]
        members = [value for value in known[feature][asked].tolist() if value == value]
        true, false = (right, left) if to_left else (left, right)
        ensemble.splits.append(Split(index, number, feature, "BRANCH_MEMBER", members, true, false, False))


def from_catboost(model):
    """The ensemble in a CatBoost model without categorical or text features."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        try:
            model.save_model(path, format="json")
        except Exception as error:
            raise Refused(f"CatBoost cannot show its trees: {plain_message(error)}") from error
        with open(path, encoding="utf-8") as file:
            dump = json.load(file)
    scale, base = dump["scale_and_bias"]
    features = dump["features_info"]["float_features"]
    loss = _catboost_loss(dump["model_info"]["params"])
    link = CATBOOST_LINKS.get(loss, "identity") if hasattr(model, "score") else "identity"
    width = 1 + max(feature["flat_feature_index"] for feature in features)
    ensemble = Ensemble(max(width, len(model.feature_names_)), len(base), base=base, link=link, objective=loss)
    ensemble.rounds = True
    for index, tree in enumerate(dump.get("oblivious_trees") or dump.get("trees")):
        root = _grown(tree["splits"], tree["leaf_values"], len(base)) if "splits" in tree else tree
        _add_catboost_tree(ensemble, index, root, features, scale)
    return ensemble


def plain_message(error):
    """A library's message in one line, whole, without the place in the library's own code."""
    return re.sub(r"^(\[[\d:]+\] )?\S+\.(cpp|cc|h|pyx):\d+: ", "", " ".join(str(error).split()))


def _catboost_loss(params):
    params = json.loads(params) if isinstance(params, str) else params
    return params["loss_function"]["type"]


def _grown(splits, values, groups, number=0):
    """An oblivious tree, which asks one question per level, as nodes. Answer i is bit i of a leaf's number."""
    if not splits:
        return {"value": values[number * groups : (number + 1) * groups]}
    return {
        "split": splits[-1],
        "left": _grown(splits[:-1], values, groups, number),
        "right": _grown(splits[:-1], values, groups, number + (1 << (len(splits) - 1))),
    }


def _add_catboost_tree(ensemble, index, root, features, scale):
    waiting, count = [(root, 0)], 1
    while waiting:
        node, number = waiting.pop()
        if "split" not in node:
            values = node["value"] if isinstance(node["value"], list) else [node["value"]]
            ensemble.leaves += [Leaf(index, number, group, scale * value) for group, value in enumerate(values)]
            continue
        split = node["split"]
        if split["split_type"] != "FloatFeature":
            raise Refused(
                "CatBoost's categorical and text features are computed outside of its trees, which no route takes; "
                "encode them before the model, for instance by TargetEncoder in a pipeline of scikit-learn"
            )
        feature = features[split["float_feature_index"]]
        left, right, count = count, count + 1, count + 2
        waiting += [(node["left"], left), (node["right"], right)]
        to_left = feature["nan_value_treatment"] != "AsTrue"
        place = feature["flat_feature_index"]
        ensemble.splits.append(Split(index, number, place, "BRANCH_LEQ", float(split["border"]), left, right, to_left))
