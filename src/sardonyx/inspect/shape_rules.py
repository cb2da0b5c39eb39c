"""Shapes of the operators that onnx itself does not infer: onnxruntime's own, and some of ai.onnx.ml."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from sardonyx.inspect.facts import Fact, Shape, Step, Unsized

MICROSOFT, LEARNING = "com.microsoft", "ai.onnx.ml"
Sizes = tuple[int, ...]
Rule = Callable[[Step], list[Sizes]]

# An operator that has the shapes of a standard one and takes its inputs in the same places.
_LIKE_STANDARD = {
    "DequantizeLinear": "DequantizeLinear",
    "FusedConv": "Conv",
    "FusedGemm": "Gemm",
    "MaxpoolWithMask": "MaxPool",
    "Pad": "Pad",
    "QuantizeLinear": "QuantizeLinear",
    "Trilu": "Trilu",
    "Unique": "Unique",
}

# Operators whose first output looks like their first input.
_SAME = {
    MICROSOFT: frozenset(
        (
            "BiasAdd",
            "BiasGelu",
            "BiasSoftmax",
            "BiasSplitGelu",
            "FastGelu",
            "Gelu",
            "GroupNorm",
            "QuickGelu",
            "QLinearLeakyRelu",
            "QLinearSigmoid",
            "QLinearSoftmax",
            "RotaryEmbedding",
            "SimplifiedLayerNormalization",
            "SkipGroupNorm",
            "SkipLayerNormalization",
            "SkipSimplifiedLayerNormalization",
        )
    ),
    LEARNING: frozenset(("Imputer", "Normalizer", "Scaler")),
    # SimplifiedLayerNormalization is onnxruntime's, but it lives in the standard domain.
    "": frozenset(("GroupNormalization", "MeanVarianceNormalization", "SimplifiedLayerNormalization")),
}


def standard(node: ir.Node) -> tuple[str, str]:
    """The domain and name under which onnx knows the node."""
    if node.domain == MICROSOFT and node.op_type in _LIKE_STANDARD:
        return "", _LIKE_STANDARD[node.op_type]
    return node.domain, node.op_type


def outputs(node: ir.Node, inputs: Sequence[Fact]) -> list[onnx.TypeProto | None] | None:
    """The types of all outputs, or None if no rule here speaks of the operator."""
    rule = RULES.get((node.domain, node.op_type))
    if rule is None and node.op_type in _SAME.get(node.domain, ()):
        rule = _first
    if rule is None:
        return None
    step = Step(node, tuple(inputs), ())
    try:
        shapes: list[Shape | None] = list(rule(step))
    except (Unsized, IndexError, ValueError, ZeroDivisionError):
        shapes = []
    shapes = (shapes + [None] * len(node.outputs))[: len(node.outputs)]
    dtypes = list(_DTYPES[node.op_type](step)) if node.op_type in _DTYPES else [_dtype(node, inputs)]
    dtypes += dtypes[-1:] * len(shapes)
    return [_type(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=False)]


def _dtype(node: ir.Node, inputs: Sequence[Fact]) -> ir.DataType | None:
    return ir.DataType.FLOAT if node.op_type in _GIVES_FLOAT else inputs[0].dtype if inputs else None


def _type(dtype: ir.DataType | None, shape: Shape | None) -> onnx.TypeProto | None:
    return None if dtype is None or shape is None else onnx.helper.make_tensor_type_proto(int(dtype), shape)


def matrix_product(left: Sizes, right: Sizes) -> Sizes:
    """The shape of MatMul, batches broadcast."""
    a = (1, *left) if len(left) == 1 else left
    b = (*right, 1) if len(right) == 1 else right
    product = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    return tuple(
        size
        for index, size in enumerate(product)
        if not (len(left) == 1 and index == len(product) - 2) and not (len(right) == 1 and index == len(product) - 1)
    )


def swapped(shape: Sizes, flag: int) -> Sizes:
    """The shape with its last two dimensions exchanged, if `flag` says so."""
    return (*shape[:-2], shape[-1], shape[-2]) if flag and len(shape) > 1 else shape


def _first(step: Step) -> list[Sizes]:
    return [step.shape(0)]


def _product(left: int, right: int) -> Rule:
    return lambda step: [matrix_product(step.shape(left), step.shape(right))]


def _fused_product(step: Step) -> list[Sizes]:
    return [
        matrix_product(swapped(step.shape(0), step.integer("transA")), swapped(step.shape(1), step.integer("transB")))
    ]


def _packed_product(step: Step) -> list[Sizes]:
    return [(*step.shape(0)[:-1], step.integer("N"))]


def _quantized_gemm(step: Step) -> list[Sizes]:
    left, right = swapped(step.shape(0), step.integer("transA")), swapped(step.shape(3), step.integer("transB"))
    return [matrix_product(left, right)]


def _elementwise(right: int) -> Rule:
    return lambda step: [np.broadcast_shapes(step.shape(0), step.shape(right))]


def _pooled_to_one(step: Step) -> list[Sizes]:
    shape = step.shape(0)
    ones = (1,) * (len(shape) - 2)
    return [(shape[0], *ones, shape[-1])] if step.integer("channels_last") else [(*shape[:2], *ones)]


def _joined(step: Step) -> list[Sizes]:
    """QLinearConcat: scale and zero point of the result, then a triple for each part."""
    parts = [step.shape(index) for index in range(2, len(step.inputs), 3)]
    axis = step.integer("axis") % len(parts[0])
    return [(*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :])]


def _embedded(step: Step) -> list[Sizes]:
    batch, length = step.shape(0)
    return [(batch, length, step.shape(2)[1]), (batch,)]


def _attention(step: Step) -> list[Sizes]:
    batch, length, _ = step.shape(0)
    sizes = step.node.attributes.get("qkv_hidden_sizes")
    width = step.shape(1)[1] // 3 if sizes is None else sizes.as_ints()[2]
    return [(batch, length, width)]


def _multi_head_attention(step: Step) -> list[Sizes]:
    query = step.shape(0)
    if len(query) == 5:  # batch, length, heads, query key value, head size
        return [(query[0], query[1], query[2] * query[4])]
    if not step.given(2):  # key and value packed, or taken from the query alone
        return [query]
    value = step.shape(2)
    return [(*query[:2], value[2] if len(value) == 3 else value[1] * value[3])]


def _grouped_attention(step: Step) -> list[Sizes]:
    batch, length, width = step.shape(0)
    heads, groups = step.integer("num_heads"), step.integer("kv_num_heads")
    return [(batch, length, width if step.given(1) else width * heads // (heads + 2 * groups))]


def _recurrent(step: Step) -> list[Sizes]:
    length, batch, _ = step.shape(0)
    directions, hidden = step.shape(1)[0], step.integer("hidden_size")
    return [(length, directions, batch, hidden), (directions, batch, hidden), (directions, batch, hidden)]


def _gathered_blocks(step: Step) -> list[Sizes]:
    data, axis = step.shape(0), step.integer("gather_axis") % len(step.shape(0))
    packed = 8 // step.integer("bits", 4) if step.inputs[0].dtype == ir.DataType.UINT8 else 1
    data = (*data[:-1], data[-1] * packed)
    return [(*data[:axis], *step.shape(1), *data[axis + 1 :])]


def _features(step: Step) -> list[Sizes]:
    parts = [step.shape(index) for index in range(len(step.inputs))]
    return [(parts[0][0], sum(math.prod(part[1:]) for part in parts))]


def _targets(name: str) -> Rule:
    """One row of targets, as many as the attribute says, for each row of the input."""
    return lambda step: [(step.shape(0)[0] if len(step.shape(0)) > 1 else 1, step.integer(name, 1))]


def _tree_classes(step: Step) -> list[Sizes]:
    classes = step.count("classlabels_strings") or step.count("classlabels_int64s")
    rows = step.shape(0)[0]
    return [(rows,), (rows, classes)]


RULES: dict[tuple[str, str], Rule] = {
    **{(MICROSOFT, name): rule for name, rule in {
        "Attention": _attention,
        "DynamicQuantizeLSTM": _recurrent,
        "DynamicQuantizeMatMul": _product(0, 1),
        "EmbedLayerNormalization": _embedded,
        "FusedMatMul": _fused_product,
        "GatherBlockQuantized": _gathered_blocks,
        "GroupQueryAttention": _grouped_attention,
        "MatMulBnb4": _packed_product,
        "MatMulFpQ4": _packed_product,
        "MatMulIntegerToFloat": _product(0, 1),
        "MatMulNBits": _packed_product,
        "MultiHeadAttention": _multi_head_attention,
        "QAttention": _attention,
        "QGemm": _quantized_gemm,
        "QLinearAdd": _elementwise(3),
        "QLinearConcat": _joined,
        "QLinearGlobalAveragePool": _pooled_to_one,
        "QLinearMul": _elementwise(3),
        "TransposeMatMul": _fused_product,
    }.items()},
    **{(LEARNING, name): rule for name, rule in {
        "FeatureVectorizer": _features,
        "LinearRegressor": _targets("targets"),
        "SVMRegressor": _targets("targets"),
        "TreeEnsembleClassifier": _tree_classes,
        "TreeEnsembleRegressor": _targets("n_targets"),
    }.items()},
}  # fmt: skip

# Operators that give float32 whatever they are given.
_GIVES_FLOAT = frozenset((
    "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "FeatureVectorizer", "LinearRegressor", "MatMulIntegerToFloat", "Normalizer",
    "SVMRegressor", "Scaler", "TreeEnsembleRegressor",
))  # fmt: skip
# Other types of outputs than that of the first input. The last one named holds for all further outputs.
_DTYPES: dict[str, Callable[[Step], Sequence[ir.DataType | None]]] = {
    "EmbedLayerNormalization": lambda step: (step.inputs[2].dtype, ir.DataType.INT32),
    "GatherBlockQuantized": lambda step: (step.inputs[2].dtype,),
    "QAttention": lambda step: (step.inputs[3].dtype,),
    "QGemm": lambda step: (step.inputs[8].dtype if step.given(8) else ir.DataType.FLOAT,),
    "QLinearConcat": lambda step: (step.inputs[2].dtype,),
    "TreeEnsembleClassifier": lambda step: (
        ir.DataType.STRING if step.count("classlabels_strings") else ir.DataType.INT64,
        ir.DataType.FLOAT,
    ),
}
