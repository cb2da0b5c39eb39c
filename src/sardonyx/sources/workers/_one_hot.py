"""The ONNX graph of a OneHotEncoder: numbers compared in their own precision, words by a table, rare ones together."""

import numpy
from onnx import TensorProto, helper

from ._tree_graph import Builder

KINDS = {
    "FloatTensorType": TensorProto.FLOAT, "DoubleTensorType": TensorProto.DOUBLE, "Int64TensorType": TensorProto.INT64,
    "StringTensorType": TensorProto.STRING,
}  # fmt: skip
TYPES = {TensorProto.FLOAT: numpy.float32, TensorProto.DOUBLE: numpy.float64, TensorProto.INT64: numpy.int64}


def graph_of_one_hot(encoder, inputs, output):
    """The graph, or None where an input is of another type. `inputs`: (type of skl2onnx, columns); `output`: its type."""
    if any(kind not in KINDS for kind, _ in inputs) or sum(width for _, width in inputs) != len(encoder.categories_):
        return None
    build = Builder(TensorProto.DOUBLE if output == "DoubleTensorType" else TensorProto.FLOAT)
    places = [(f"X{index}", KINDS[kind], place) for index, (kind, width) in enumerate(inputs) for place in range(width)]
    blocks = [_block(build, encoder, feature, *place) for feature, place in enumerate(places)]
    if any(block is None for block in blocks):
        return None
    joined = build.add("Concat", *blocks, axis=1)
    if output == "Int64TensorType":
        joined = build.add("Cast", joined, to=TensorProto.INT64)
    build.rename(joined, "Y")
    return helper.make_graph(
        build.nodes,
        "one hot",
        [helper.make_tensor_value_info(f"X{index}", KINDS[kind], None) for index, (kind, _) in enumerate(inputs)],
        [helper.make_tensor_value_info("Y", KINDS.get(output, build.kind), None)],
        build.constants,
    )


def _block(build, encoder, feature, tensor, kind, place):
    """The columns of one feature: which category it is, then which column that category has."""
    known = numpy.asarray(encoder.categories_[feature])
    if (known.dtype.kind in "OUS") != (kind == TensorProto.STRING):
        return None
    column = build.add("Gather", tensor, build.constant([place], numpy.int64), axis=1)
    found = _words(build, column, known) if kind == TensorProto.STRING else _numbers(build, column, known, kind)
    flags = build.add("Cast", found, to=build.kind)
    table = _table(encoder, feature, len(known))
    columns = build.add("MatMul", flags, build.constant(table))
    if encoder.handle_unknown not in ("infrequent_if_exist", "warn"):
        return columns
    rare = getattr(encoder, "_infrequent_indices", [None] * len(encoder.categories_))[feature]
    if rare is None:
        return columns
    counted = build.add("ReduceSum", flags, build.constant([1], numpy.int64), keepdims=1)
    unknown = build.add("Sub", build.constant(1.0), counted)
    return build.add("Add", columns, build.add("MatMul", unknown, build.constant(table[rare[:1]])))


def _words(build, column, known):
    places = [place for place, word in enumerate(known) if isinstance(word, str)]  # None and NaN are no strings
    code = build.add(
        "LabelEncoder", column, domain="ai.onnx.ml", keys_strings=[known[place] for place in places],
        values_int64s=places, default_int64=-1,
    )  # fmt: skip
    return build.add("Equal", code, build.constant([numpy.arange(len(known))], numpy.int64))


def _numbers(build, column, known, kind):
    dtype = TYPES[kind]
    values = known.astype(numpy.float64)
    if kind == TensorProto.INT64:
        whole = numpy.where(numpy.isnan(values) | (values != numpy.round(values)), numpy.iinfo(numpy.int64).min, values)
        return build.add("Equal", column, build.constant(whole[None].astype(numpy.int64), numpy.int64))
    # A category that the type does not hold is equal to none of its numbers.
    held = numpy.where(values.astype(dtype) == values, values, numpy.nan)
    same = build.add("Equal", column, build.constant(held[None], dtype))
    if not numpy.isnan(values).any():
        return same
    missing = build.add("And", build.add("IsNaN", column), build.constant(numpy.isnan(values)[None], bool))
    return build.add("Or", same, missing)


def _table(encoder, feature, count):
    """[categories, columns] with a one where a category has its column; rare ones share the last, a dropped one has none."""
    mapping = getattr(encoder, "_default_to_infrequent_mappings", [None] * len(encoder.categories_))[feature]
    column_of = numpy.arange(count) if mapping is None else numpy.asarray(mapping)
    table = numpy.zeros((count, column_of.max() + 1))
    table[numpy.arange(count), column_of] = 1
    dropped = getattr(encoder, "_drop_idx_after_grouping", None)
    if dropped is not None and dropped[feature] is not None:
        table = numpy.delete(table, int(dropped[feature]), axis=1)
    return table
