"""Multiply-accumulates of a node: one rule per operator, and a set of those whose cost nobody here knows.

An operator without a rule multiplies no matrices: elementwise work, pooling, normalisation and copies count as none, and so
does an FFT. The bias of a convolution or a Gemm is an addition and not counted. Padding is counted like any input, and a
causal mask takes nothing off, which is how papers and PyTorch's counter count.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sardonyx.inspect.facts import Step, Unsized
from sardonyx.inspect.shape_rules import LEARNING, MICROSOFT, swapped

Rule = Callable[[Step], int]

# Domains whose operators are all known here: no rule means no multiply-accumulates.
_KNOWN_DOMAINS = frozenset(("", LEARNING))
_UNCOUNTED = frozenset((("", "LinearAttention"),))
# Operators of onnxruntime that multiply no matrices.
_FREE = frozenset((
    "BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "BiasSplitGelu", "CropAndResize", "DequantizeLinear",
    "EmbedLayerNormalization", "FastGelu", "GatherBlockQuantized", "GatherND", "Gelu", "GroupNorm",
    "MaxpoolWithMask", "Pad", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool",
    "QLinearLeakyRelu", "QLinearMul", "QLinearReduceMean", "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere",
    "QuantizeLinear", "QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization", "SkipGroupNorm",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Tokenizer", "Trilu", "Unique",
))  # fmt: skip


def macs(step: Step) -> int | None:
    """The multiply-accumulates of a node without its bodies, or None where they cannot be known."""
    operator = (step.node.domain, step.node.op_type)
    rule = RULES.get(operator)
    try:
        if rule is not None:
            return rule(step)
    except (Unsized, IndexError, KeyError, ValueError, ZeroDivisionError):
        return None
    free = step.node.domain in _KNOWN_DOMAINS or (step.node.domain == MICROSOFT and step.node.op_type in _FREE)
    return 0 if free and step.followed and operator not in _UNCOUNTED else None


def has_rule(step: Step) -> bool:
    return (step.node.domain, step.node.op_type) in RULES


def _convolution(weights: int) -> Rule:
    """Every output element is a sum over one kernel: input channels of its group times the kernel's area."""
    return lambda step: math.prod(step.result()) * math.prod(step.shape(weights)[1:])


def _transposed_convolution(step: Step) -> int:
    """Every input element is spread over one kernel: output channels of its group times the kernel's area."""
    return math.prod(step.shape(0)) * math.prod(step.shape(1)[1:])


def _product(step: Step) -> int:
    """Every output element is a sum over the last dimension of the left matrix."""
    return math.prod(step.result()) * step.shape(0)[-1]


def _transposable_product(step: Step) -> int:
    return math.prod(step.result()) * swapped(step.shape(0), step.integer("transA"))[-1]


def _recurrent(step: Step) -> int:
    """Each weight of W and R is used once for every element of the batch at every time."""
    length, batch, _ = step.shape(0)
    return length * batch * (math.prod(step.shape(1)) + math.prod(step.shape(2)))


def _einsum(step: Step) -> int:
    """Operands are taken in pairs from the left; what only one of a pair holds and nobody needs later is summed out first."""
    equation = step.node.attributes["equation"].as_string().replace(" ", "")
    terms, _, result = equation.partition("->")
    operands = [_labels(term, step.shape(index)) for index, term in enumerate(terms.split(","))]
    sizes: dict[str, int] = {}
    for labels in operands:
        for label, size in labels.items():
            sizes[label] = max(size, sizes.get(label, 1))
    kept = set(result.replace("...", "")) if "->" in equation else _implicit(terms)
    kept |= {label for label in sizes if label.startswith(".")}
    total, left = 0, set(operands[0])
    for index, right in enumerate(map(set, operands[1:]), start=1):
        needed = kept.union(*operands[index + 1 :])
        used = {label for label in left | right if label in needed or (label in left and label in right)}
        total += math.prod(sizes[label] for label in used)
        left = used & needed
    return total


def _labels(term: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Letters to sizes; the dimensions of an ellipsis are called .1, .2 from the right."""
    before, dots, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after)
    names = [*before, *(f".{hidden - index}" for index in range(hidden if dots else 0)), *after]
    return dict(zip(names, shape, strict=True))


def _implicit(terms: str) -> set[str]:
    """Without an arrow, the result has every letter that appears once."""
    letters = [letter for letter in terms if letter.isalpha()]
    return {letter for letter in letters if letters.count(letter) == 1}


def _attention(step: Step) -> int:
    """Scores, then their product with the values, for every head of the query."""
    query, key, value = (step.shape(index) for index in range(3))
    past = step.shape(4)[2] if step.given(4) else 0
    if len(query) == 4:
        batch, heads, length, width = query
        return batch * heads * length * (key[2] + past) * (width + value[3])
    batch, length, width = query
    value_width = step.integer("q_num_heads") * (value[2] // step.integer("kv_num_heads"))
    return batch * length * (key[1] + past) * (width + value_width)


def _attention_with_projection(step: Step) -> int:
    """onnxruntime's Attention: one product gives query, key and value, then attention itself."""
    batch, length, width = step.shape(0)
    projected = step.shape(1)[1]
    sizes = step.node.attributes.get("qkv_hidden_sizes")
    query, _, value = (projected // 3,) * 3 if sizes is None else sizes.as_ints()
    past_at = 8 if step.node.op_type == "QAttention" else 4
    past = step.shape(past_at)[3] if step.given(past_at) else 0
    return batch * length * (width * projected + (length + past) * (query + value))


def _multi_head_attention(step: Step) -> int:
    query = step.shape(0)
    batch, length = query[:2]
    width = query[2] if len(query) == 3 else query[2] * query[4]
    seen = length
    if step.given(1):
        key = step.shape(1)
        seen = key[2] if len(key) == 4 else key[1]
    past = step.shape(6)[2] if step.given(6) else 0
    return batch * length * (seen + past) * (width + step.result()[2])


def _grouped_attention(step: Step) -> int:
    batch, length, width = step.result()
    past = step.shape(3)[2] if step.given(3) else 0
    return batch * length * (length + past) * 2 * width


def _linear(step: Step) -> int:
    return _samples(step) * step.count("coefficients")


def _support_vectors(step: Step) -> int:
    return _samples(step) * (step.count("support_vectors") or step.count("coefficients"))


def _samples(step: Step) -> int:
    shape = step.shape(0)
    return shape[0] if len(shape) > 1 else 1


RULES: dict[tuple[str, str], Rule] = {
    **{("", name): rule for name, rule in {
        "Attention": _attention,
        "CausalConvWithState": _convolution(1),
        "Conv": _convolution(1),
        "ConvInteger": _convolution(1),
        "ConvTranspose": _transposed_convolution,
        "DeformConv": _convolution(1),
        "Einsum": _einsum,
        "GRU": _recurrent,
        "Gemm": _transposable_product,
        "LSTM": _recurrent,
        "MatMul": _product,
        "MatMulInteger": _product,
        "QLinearConv": _convolution(3),
        "QLinearMatMul": _product,
        "RNN": _recurrent,
    }.items()},
    **{(MICROSOFT, name): rule for name, rule in {
        "Attention": _attention_with_projection,
        "DynamicQuantizeLSTM": _recurrent,
        "DynamicQuantizeMatMul": _product,
        "FusedConv": _convolution(1),
        "FusedGemm": _transposable_product,
        "FusedMatMul": _transposable_product,
        "GroupQueryAttention": _grouped_attention,
        "MatMulBnb4": _product,
        "MatMulFpQ4": _product,
        "MatMulIntegerToFloat": _product,
        "MatMulNBits": _product,
        "MultiHeadAttention": _multi_head_attention,
        "NhwcConv": _convolution(1),
        "QAttention": _attention_with_projection,
        "QGemm": _transposable_product,
        "QLinearConv": _convolution(3),
        "TransposeMatMul": _transposable_product,
    }.items()},
    **{(LEARNING, name): rule for name, rule in {
        "LinearClassifier": _linear,
        "LinearRegressor": _linear,
        "SVMClassifier": _support_vectors,
        "SVMRegressor": _support_vectors,
    }.items()},
}  # fmt: skip
