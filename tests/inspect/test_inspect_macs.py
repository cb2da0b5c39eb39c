"""Multiply-accumulates against closed forms, worked out by hand from each operator's definition."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sardonyx.inspect.macs import RULES
from sardonyx.inspect.summary import dissect
from sardonyx.model import Model

MICROSOFT = "com.microsoft"


def counted(
    inputs: str, call: str, *, outputs: str = "float y", opset: int = 23, sizes: Mapping[str, int] | None = None
) -> int:
    """The count of a graph of one call; it fails if anything was left out."""
    model = Model.from_text(
        f'<ir_version: 10, opset_import: ["": {opset}, "ai.onnx.ml": 3, "{MICROSOFT}": 1]> '
        f"g ({inputs}) => ({outputs}) {{ {outputs.split()[-1]} = {call} }}"
    )
    found = dissect(model, sizes or {})
    assert not found.costs.uncounted
    return found.costs.total


@pytest.mark.parametrize(
    ("inputs", "call", "expected"),
    [
        # Conv: N * Cout * Ho * Wo * Cin / group * kh * kw
        ("float[2,3,8,8] x, float[4,3,3,3] w", "Conv(x, w)", 2 * 4 * 6 * 6 * 3 * 3 * 3),
        ("float[1,4,8,8] x, float[8,1,3,3] w", "Conv<group=4, pads=[1,1,1,1]>(x, w)", 8 * 8 * 8 * 1 * 9),
        ("float[1,3,9,9] x, float[4,3,3,3] w", "Conv<strides=[2,2], dilations=[2,2]>(x, w)", 4 * 3 * 3 * 27),
        ("float[1,3,16] x, float[4,3,5] w", "Conv(x, w)", 4 * 12 * 3 * 5),
        ("float[1,2,4,4,4] x, float[4,2,2,2,2] w", "Conv(x, w)", 4 * 27 * 2 * 8),
        # ConvTranspose: N * Cin * H * W * Cout / group * kh * kw
        ("float[1,4,5,5] x, float[4,6,3,3] w", "ConvTranspose<strides=[2,2]>(x, w)", 4 * 25 * 6 * 9),
        ("float[1,4,5,5] x, float[4,3,2,2] w", "ConvTranspose<group=2>(x, w)", 4 * 25 * 3 * 4),
        # Gemm and MatMul: M * N * K for each matrix of the batch
        ("float[5,7] a, float[7,3] b", "Gemm(a, b)", 5 * 7 * 3),
        ("float[7,5] a, float[3,7] b, float[3] c", "Gemm<transA=1, transB=1>(a, b, c)", 5 * 7 * 3),
        ("float[2,4,5,7] a, float[7,3] b", "MatMul(a, b)", 8 * 5 * 7 * 3),
        ("float[2,1,5,7] a, float[4,7,3] b", "MatMul(a, b)", 8 * 5 * 7 * 3),
        ("float[7] a, float[7] b", "MatMul(a, b)", 7),
        ("float[7] a, float[2,7,3] b", "MatMul(a, b)", 2 * 7 * 3),
        ("uint8[5,7] a, int8[7,3] b", "MatMulInteger(a, b)", 5 * 7 * 3),
        ("uint8[1,3,8,8] x, uint8[4,3,3,3] w", "ConvInteger(x, w)", 4 * 36 * 27),
        # RNNs: length * batch * directions * gates * H * (I + H)
        ("float[10,2,5] x, float[1,28,5] w, float[1,28,7] r", "LSTM<hidden_size=7>(x, w, r)", 20 * 4 * 7 * 12),
        ("float[10,2,5] x, float[2,21,5] w, float[2,21,7] r",
         'GRU<hidden_size=7, direction="bidirectional">(x, w, r)', 20 * 2 * 3 * 7 * 12),
        ("float[10,2,5] x, float[1,7,5] w, float[1,7,7] r", "RNN<hidden_size=7>(x, w, r)", 20 * 7 * 12),
        # Einsum
        ('float[2,3,4] a, float[2,4,5] b', 'Einsum<equation="bij,bjk->bik">(a, b)', 2 * 3 * 4 * 5),
        ('float[2,3,4] a, float[5,4] b', 'Einsum<equation="...j, kj -> ...k">(a, b)', 6 * 4 * 5),
        ('float[3,4] a, float[4,5] b', 'Einsum<equation="ij,jk">(a, b)', 3 * 4 * 5),
        ('float[3,4] a', 'Einsum<equation="ij->ji">(a)', 0),
        ('float[3] a, float[4] b', 'Einsum<equation="i,j->ij">(a, b)', 12),
        ('float[3,4] a, float[5] b', 'Einsum<equation="ij,k->k">(a, b)', 5),  # i and j are summed before
        ('float[3,4] a, float[4,5] b, float[5,6] c', 'Einsum<equation="ij,jk,kl->il">(a, b, c)', 3 * 4 * 5 + 3 * 5 * 6),
        # Attention: scores and values for every query head
        ("float[2,4,5,8] q, float[2,4,6,8] k, float[2,4,6,3] v", "Attention(q, k, v)", 2 * 4 * 5 * 6 * (8 + 3)),
        ("float[2,5,32] q, float[2,6,16] k, float[2,6,6] v",
         "Attention<q_num_heads=4, kv_num_heads=2>(q, k, v)", 2 * 5 * 6 * (32 + 12)),
        # work without matrices
        ("float[2,3] a, float[2,3] b", "Mul(a, b)", 0),
        ("float[1,3,8,8] a", "GlobalAveragePool(a)", 0),
        ("float[2,3] a", "Softmax(a)", 0),
    ],
)  # fmt: skip
def test_standard_operators(inputs: str, call: str, expected: int) -> None:
    assert counted(inputs, call) == expected


@pytest.mark.parametrize(
    ("inputs", "call", "expected"),
    [
        ("float[2,7,5] a, float[2,7,3] b", "FusedMatMul<transA=1>(a, b)", 2 * 5 * 7 * 3),
        ("float[2,5,7] a, float[2,3,7] b", "FusedMatMul<transB=1, alpha=0.5>(a, b)", 2 * 5 * 7 * 3),
        ("float[2,5,64] a, uint8[10,2,16] b, float[20] s",
         "MatMulNBits<K=64, N=10, bits=4, block_size=32>(a, b, s)", 10 * 64 * 10),
        ("float[5,7] a, uint8[7,3] b, float s", "DynamicQuantizeMatMul(a, b, s)", 5 * 7 * 3),
        ("float[1,3,8,8] x, float[4,3,3,3] w", 'FusedConv<activation="Relu">(x, w)', 4 * 36 * 27),
        ("float[5,7] a, float[7,3] b", 'FusedGemm<activation="Relu">(a, b)', 5 * 7 * 3),
        # Attention: the projection to query, key and value, then scores and values
        ("float[2,5,8] x, float[8,24] w, float[24] b",
         "Attention<num_heads=2>(x, w, b)", 2 * 5 * 8 * 24 + 2 * 5 * 5 * 16),
        ("float[2,5,8] x, float[8,20] w, float[20] b",
         "Attention<num_heads=2, qkv_hidden_sizes=[8,8,4]>(x, w, b)", 2 * 5 * 8 * 20 + 2 * 5 * 5 * 12),
        ("float[2,5,8] q, float[2,6,8] k, float[2,6,4] v", "MultiHeadAttention<num_heads=2>(q, k, v)", 2 * 5 * 6 * 12),
        ("float[2,5,2,3,4] q", "MultiHeadAttention<num_heads=2>(q)", 2 * 5 * 5 * 16),
        ("float[2,5,8] q, float[2,5,4] k, float[2,5,4] v, float[2,1,7,4] pk, float[2,1,7,4] pv, int32[2] n, int32 t",
         "GroupQueryAttention<num_heads=2, kv_num_heads=1>(q, k, v, pk, pv, n, t)", 2 * 5 * 12 * 16),
        ("float[2,5,8] x, float[2,5,8] s, float[8] g", "SkipLayerNormalization(x, s, g)", 0),
        ("float[2,5] x", "Gelu(x)", 0),
    ],
)  # fmt: skip
def test_operators_of_onnxruntime(inputs: str, call: str, expected: int) -> None:
    assert counted(inputs, f"{MICROSOFT}.{call}") == expected


def test_quantized_operators_read_their_weights_where_they_lie() -> None:
    scales = "float s, uint8 z"
    convolution = counted(
        f"uint8[1,3,8,8] x, uint8[4,3,3,3] w, {scales}", "QLinearConv(x, s, z, w, s, z, s, z)", outputs="uint8 y"
    )
    assert convolution == 4 * 36 * 27
    product = counted(
        f"uint8[5,7] a, uint8[7,3] b, {scales}", "QLinearMatMul(a, s, z, b, s, z, s, z)", outputs="uint8 y"
    )
    assert product == 5 * 7 * 3


def test_linear_models_multiply_every_row_with_every_coefficient() -> None:
    found = counted(
        "float[N,3] x", "ai.onnx.ml.LinearRegressor<coefficients=[1.0,2.0,3.0], targets=1>(x)", sizes={"N": 4}
    )
    assert found == 12


def test_sizes_scale_the_count() -> None:
    graph = ("float[batch,3,size,size] x, float[4,3,1,1] w", "Conv(x, w)")
    assert counted(*graph, sizes={"batch": 2, "size": 10}) == 2 * 4 * 100 * 3
    assert counted(*graph, sizes={"batch": 4, "size": 20}) == 8 * counted(*graph, sizes={"batch": 2, "size": 10})


def test_an_operator_nobody_knows_is_not_counted_as_free() -> None:
    model = Model.from_text(
        '<ir_version: 10, opset_import: ["": 21, "mine": 1]> g (float[2,3] x) => (float[2,3] y) { y = mine.Mystery(x) }'
    )
    assert [step.node.op_type for step in dissect(model, {}).costs.uncounted] == ["Mystery"]


def test_a_product_of_unknown_size_is_not_counted_as_free() -> None:
    model = Model.from_text(
        '<ir_version: 10, opset_import: ["": 21]> g (float[4] x, float[1,3] w) => (float y) '
        "{ i = NonZero(x) f = Cast<to=1>(i) t = Transpose(f) y = MatMul(t, w) }"
    )
    found = dissect(model, {})
    assert [step.node.op_type for step in found.costs.uncounted] == ["MatMul"]


def test_every_rule_gives_up_instead_of_failing_when_nothing_is_known() -> None:
    for domain, name in RULES:
        call = f"{domain}.{name}" if domain else name
        model = Model.from_text(
            f'<ir_version: 10, opset_import: ["": 23, "ai.onnx.ml": 3, "{MICROSOFT}": 1]> g (float x) => (float y) '
            f"{{ n = NonZero(x) u = Cast<to=1>(n) y = {call}(u, u, u, u) }}"
        )
        assert dissect(model, {}).costs.total == 0, call
