"""ONNX graphs of scikit-learn's transformers that skl2onnx gets wrong or has in float32 alone: from `X` to `Y`."""

import numpy
from onnx import TensorProto, helper

from ._tree_graph import Builder


def graph_of_transformer(transformer, *, double):
    """The graph in one float type, or None where the settings of the transformer are of another kind."""
    build = Builder(TensorProto.DOUBLE if double else TensorProto.FLOAT)
    made = GRAPHS[type(transformer).__name__](build, transformer)
    if made is None:
        return None
    build.rename(made, "Y")
    return helper.make_graph(
        build.nodes,
        "transformer",
        [helper.make_tensor_value_info("X", build.kind, None)],
        [helper.make_tensor_value_info("Y", build.kind, None)],
        build.constants,
    )


def width_of_imputer(imputer):
    """How many columns come out: those that are not empty, and the indicators."""
    indicators = imputer.indicator_.features_ if imputer.add_indicator else ()
    return len(_kept(imputer)) + len(indicators)


def _kept(imputer):
    """The columns that stay. One without any value in training goes, unless the user keeps it."""
    known = ~numpy.isnan(imputer.statistics_.astype(float))  # a constant of the user's own is an object
    if imputer.strategy == "constant" or getattr(imputer, "keep_empty_features", False):
        known = numpy.ones_like(known)
    return numpy.flatnonzero(known)


def _imputer(build, imputer):
    if any(isinstance(value, str) or value is None for value in (*imputer.statistics_, imputer.missing_values)):
        return None
    mark = float(imputer.missing_values)
    missing = build.add("IsNaN", "X") if numpy.isnan(mark) else build.add("Equal", "X", build.constant(mark))
    filled = build.add("Where", missing, build.constant(imputer.statistics_[None].astype(float)), "X")
    kept = _kept(imputer)
    if len(kept) < len(imputer.statistics_):
        filled = build.add("Gather", filled, build.constant(kept, numpy.int64), axis=1)
    if not imputer.add_indicator:
        return filled
    flags = build.add("Gather", missing, build.constant(imputer.indicator_.features_, numpy.int64), axis=1)
    return build.add("Concat", filled, build.add("Cast", flags, to=build.kind), axis=1)


def _binarizer(build, binarizer):
    above = build.add("Greater", "X", build.constant(float(binarizer.threshold)))
    return build.add("Cast", above, to=build.kind)


def _normalizer(build, normalizer):
    """Every row by its length; a row of zeros stays."""
    axis = build.constant([1], numpy.int64)
    size = build.add("Abs", "X")
    if normalizer.norm == "max":  # the axes of ReduceMax became an input with opset 18; of TopK they never were one
        length, _ = build.add("TopK", size, build.constant([1], numpy.int64), outputs=2, axis=1)
    elif normalizer.norm == "l1":
        length = build.add("ReduceSum", size, axis, keepdims=1)
    else:
        length = build.add("Sqrt", build.add("ReduceSum", build.add("Mul", "X", "X"), axis, keepdims=1))
    empty = build.add("Equal", length, build.constant(0.0))
    return build.add("Div", "X", build.add("Where", empty, build.constant(1.0), length))


def _power(build, transformer):
    """The powers in float64, because a small exponent cancels, then the scaling; a missing value stays missing."""
    exact = Powers(build)
    values = exact.add("Cast", "X", to=TensorProto.DOUBLE)
    exponents = numpy.asarray(transformer.lambdas_, numpy.float64)[None]
    if transformer.method == "box-cox":
        powers = exact.power(values, exponents)
    else:
        positive = exact.add("GreaterOrEqual", values, exact.constant(0.0))
        size = exact.add("Add", exact.add("Abs", values), exact.constant(1.0))
        low = exact.add("Neg", exact.power(size, 2 - exponents))
        powers = exact.add("Where", positive, exact.power(size, exponents), low)
        powers = exact.add("Where", exact.add("IsNaN", values), values, powers)
    if transformer.standardize:
        scaler = transformer._scaler
        powers = exact.add("Sub", powers, exact.constant(scaler.mean_[None]))
        powers = exact.add("Div", powers, exact.constant(scaler.scale_[None]))
    return build.add("Cast", powers, to=build.kind)


def _bins(build, discretizer):
    """For every column how many of its inner edges a value reaches, as that number or as one flag for each."""
    if any(numpy.asarray(edges).dtype.kind != "f" for edges in discretizer.bin_edges_):
        return None
    columns = []
    for place, edges in enumerate(discretizer.bin_edges_):
        column = build.add("Gather", "X", build.constant([place], numpy.int64), axis=1)
        inner = [_reached(edge, build.dtype) for edge in edges[1:-1]]
        if not inner:  # one bin
            whole = build.add("Mul", column, build.constant(0.0))
            columns.append(whole if discretizer.encode == "ordinal" else build.add("Add", whole, build.constant(1.0)))
            continue
        reached = build.add("Cast", build.add("GreaterOrEqual", column, build.constant([inner])), to=build.kind)
        number = build.add("ReduceSum", reached, build.constant([1], numpy.int64), keepdims=1)
        columns.append(number if discretizer.encode == "ordinal" else _flags(build, number, len(inner) + 1))
    return build.add("Concat", *columns, axis=1)


def _flags(build, number, count):
    return build.add("Cast", build.add("Equal", number, build.constant([numpy.arange(count)])), to=build.kind)


def _reached(edge, dtype):
    """The least number of the type that is not below the edge."""
    near = dtype(edge)
    return near if float(near) >= edge else numpy.nextafter(near, dtype(numpy.inf))


def _polynomial(build, transformer):
    """Every product as a row of factors, filled with ones."""
    powers = transformer.powers_
    one = powers.shape[1]  # the place of a column of ones
    factors = [[column for column, times in enumerate(row) for _ in range(times)] for row in powers.tolist()]
    longest = max(map(len, factors))
    if not longest:
        return None
    table = [row + [one] * (longest - len(row)) for row in factors]
    first = build.add("Gather", "X", build.constant([0], numpy.int64), axis=1)
    ones = build.add("Expand", build.constant([[1.0]]), build.add("Shape", first))
    gathered = build.add("Gather", build.add("Concat", "X", ones, axis=1), build.constant(table, numpy.int64), axis=1)
    product = build.add("Gather", gathered, build.constant(0, numpy.int64), axis=2)
    for place in range(1, longest):
        product = build.add("Mul", product, build.add("Gather", gathered, build.constant(place, numpy.int64), axis=2))
    return product


class Powers:
    """Adds nodes in float64 to a builder of any type."""

    def __init__(self, build):
        self.build, self.add = build, build.add

    def constant(self, values):
        return self.build.constant(values, numpy.float64)

    def power(self, values, exponents):
        """(values ** exponent - 1) / exponent, and the logarithm where the exponent is zero."""
        zero = numpy.abs(exponents) < numpy.spacing(1.0)
        whole = self.add("Pow", values, self.constant(exponents))
        shifted = self.add("Sub", whole, self.constant(1.0))
        powers = self.add("Div", shifted, self.constant(numpy.where(zero, 1.0, exponents)))
        if not zero.any():
            return powers
        return self.add("Where", self.build.constant(zero, bool), self.add("Log", values), powers)


GRAPHS = {
    "SimpleImputer": _imputer,
    "Binarizer": _binarizer,
    "Normalizer": _normalizer,
    "KBinsDiscretizer": _bins,
    "PolynomialFeatures": _polynomial,
    "PowerTransformer": _power,
}
