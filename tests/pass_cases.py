"""Graphs for every pass of optimize: what it replaces, and what it must leave as it is."""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx.model import Model


@dataclass(frozen=True)
class Graph:
    """A graph in ONNX text: its inputs and outputs, its weights and its nodes."""

    head: str
    body: str
    weights: str = ""
    opset: int = 18

    def model(self) -> Model:
        weights = f"<{self.weights}>" if self.weights else ""
        return Model.from_text(
            f'<ir_version: 8, opset_import: ["": {self.opset}]> g {self.head} {weights} {{ {self.body} }}'
        )


@dataclass(frozen=True)
class Case:
    """A graph, and the operators that the pass leaves of it. Not `told`: onnx's own evaluator cannot compute it."""

    before: Graph
    after: str
    told: bool = True


@dataclass(frozen=True)
class Refusal:
    """A graph that the pass leaves as it is, and a part of the reason."""

    graph: Graph
    reason: str


NORM = "float[2] s = {1.5, -0.5}, float[2] b = {0.25, 1}, float[2] m = {0.5, -1}, float[2] v = {2, 0.5}"
KERNEL = "float[2,3,1,1] w = {1, -2, 3, 0.5, 0.25, -1}"
IMAGE = "(float[n,3,4,4] x) => (float[n,2,4,4] y)"
MATRIX = "float[3,2] w = {1, -2, 3, 0.5, 0.25, -1}"
ROWS = "(float[n,3] x) => (float[n,2] y)"
SAME = "(float[n,3] x) => (float[n,3] y)"
COLUMN = "(float[n,3,4,1] x) => (float[n,2,4] y)"
INDICES = "(int64[n,2,1] i) => (float[n,2,2] y)"
HOT = f"int64[1,3] k = {{0, 1, 2}}, {MATRIX}"
TAKEN = "(int64[n,2] i) => (float[n,2,2] y)"
TABLE = "float[3,2] t = {1, -2, 3, 0.5, 0.25, -1}"
SQUARE = "(float[2,3,4] x) => (float[2,3,4] y)"

CASES: dict[str, list[Case]] = {
    "fix_weights": [
        Case(Graph("(float[n,3] x, float[3] w) => (float[n,3] y)", "y = Mul(x, w)", "float[3] w = {1, 2, 3}"), "Mul"),
    ],
    "lift_constants": [
        Case(Graph(SAME, "w = Constant<value = float[3] {1.0, 2.0, 3.0}>() y = Mul(x, w)"), "Mul"),
        Case(
            Graph(
                "(bool c, float[n,3] x) => (float[n,3] y)",
                "y = If(c)<then_branch = t () => (float[n,3] a) { k = Constant<value_float = 2.0>() a = Mul(x, k) }, "
                "else_branch = e () => (float[n,3] b) { b = Neg(x) }>",
            ),
            "If Mul Neg",
        ),
    ],
    "fold_constants": [
        Case(Graph(SAME, "s = Sqrt(w) y = Mul(x, s)", "float[3] w = {1, 4, 9}"), "Mul"),
        Case(
            Graph(
                "(float[n,100] x) => (float[n,100] y)",
                "k = Identity(w) t = Transpose(k) y = MatMul(x, t)",
                f"float[100,100] w = {{{', '.join(str(i % 7) for i in range(10_000))}}}",
            ),
            "MatMul",
        ),
    ],
    "fold_shapes": [
        Case(
            Graph(
                "(float[n,3,4] x) => (float[n,12] y)",
                "s = Shape(x) a = Gather(s, zero) b = Unsqueeze(a, zeros) t = Concat<axis = 0>(b, rest) y = Reshape(x, t)",
                "int64 zero = {0}, int64[1] zeros = {0}, int64[1] rest = {12}",
            ),
            "Reshape",
        ),
        Case(
            Graph(
                "(float[n,3,4] x) => (float[n,3,4] y)",
                "s = Shape(x) a = Gather<axis = 0>(s, one) c = Cast<to = 1>(a) y = Mul(x, c)",
                "int64 one = {1}",
            ),
            "Cast Mul",
        ),
        Case(
            Graph("(float[2,3] x) => (float[2,3] y)", "s = Shape(x) e = Expand(k, s) y = Add(x, e)", "float k = {2}"),
            "Expand Add",
        ),
        Case(Graph("(float[2,3] x) => (float[2,3] y)", "s = Size(x) c = Cast<to = 1>(s) y = Div(x, c)"), "Cast Div"),
    ],
    "remove_no_ops": [
        Case(
            Graph(
                SAME,
                "a = Mul(x, one) b = Add(a, zero) c = Sub(b, zero) d = Div(c, one) y = Relu(d)",
                "float one = {1}, float[3] zero = {0, 0, 0}",
            ),
            "Relu",
        ),
        Case(Graph(SAME, "a, mask = Dropout(x) y = Relu(a)"), "Relu"),
        Case(Graph(SAME, "a = Cast<to = 1>(x) b = Concat<axis = 1>(a) c = Sum(b) y = Relu(c)"), "Relu"),
        Case(
            Graph(
                "(float[2,3] x) => (float[2,3] y)",
                "a = Reshape(x, s) b = Expand(a, s) y = Relu(b)",
                "int64[2] s = {2, 3}",
            ),
            "Relu",
        ),
        Case(
            Graph(SAME, "a = Pad(x, p) b = Transpose<perm = [0, 1]>(a) y = Relu(b)", "int64[4] p = {0, 0, 0, 0}"),
            "Relu",
        ),
        Case(
            Graph(
                SAME,
                "a = Slice(x, from, to, axes) y = Relu(a)",
                "int64[1] from = {0}, int64[1] to = {9223372036854775807}, int64[1] axes = {1}",
            ),
            "Relu",
        ),
        Case(
            Graph(
                "(float[n,512,4] x) => (float[n,512,4] y)",
                "a = Slice(x, from, to) y = Relu(a)",
                "int32[3] from = {0, 0, 0}, int32[3] to = {1000000000, 1000000000, 4}",
            ),
            "Relu",
        ),
    ],
    "remove_cast_pairs": [
        Case(
            Graph("(float16[n,3] x) => (float16[n,3] y)", "a = Cast<to = 1>(x) b = Cast<to = 10>(a) y = Relu(b)"),
            "Relu",
        ),
        Case(
            Graph("(int32[n,3] x) => (float[n,3] y)", "a = Cast<to = 7>(x) b = Cast<to = 1>(a) y = Relu(b)"),
            "Cast Relu",
        ),
    ],
    "merge_transposes": [
        Case(
            Graph(SQUARE, "a = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [0, 2, 1]>(a) y = Relu(b)"), "Relu"
        ),
        Case(
            Graph(
                "(float[2,3,4] x) => (float[4,2,3] y)",
                "a = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [1, 2, 0]>(a)",
            ),
            "Transpose",
        ),
    ],
    "push_transposes": [
        Case(
            Graph(
                SQUARE,
                "a = Transpose<perm = [0, 2, 1]>(x) b = Relu(a) c = Mul(b, w) y = Transpose<perm = [0, 2, 1]>(c)",
                "float[3] w = {1, 2, 3}",
            ),
            "Relu Mul",
        ),
        Case(
            Graph(
                SQUARE,
                "a = Transpose<perm = [1, 2, 0]>(x) b = Sub(one, a) y = Transpose<perm = [2, 0, 1]>(b)",
                "float one = {1}",
            ),
            "Sub",
        ),
    ],
    "merge_reshapes": [
        Case(
            Graph(
                "(float[n,3,4] x) => (float[n,12] y)",
                "a = Reshape(x, s) y = Reshape(a, t)",
                "int64[2] s = {-1, 2}, int64[2] t = {-1, 12}",
            ),
            "Reshape",
        ),
        Case(Graph(SAME, "a = Unsqueeze(x, one) b = Squeeze(a, one) y = Relu(b)", "int64[1] one = {1}"), "Relu"),
        Case(
            Graph(
                "(float[n,3,1,1] x) => (float[1,n,3] y)", "a = Flatten(x) y = Unsqueeze(a, zero)", "int64[1] zero = {0}"
            ),
            "Reshape",
        ),
    ],
    "look_up_one_hot": [
        Case(Graph(INDICES, "e = Equal(i, k) h = Cast<to = 1>(e) y = MatMul(h, w)", HOT), "Squeeze Clip Gather"),
        Case(
            Graph(
                INDICES,
                "s = Shape(i) t = Max(s, far) g = Expand(i, t) e = Equal(k, g) h = Cast<to = 1>(e) y = MatMul(h, w)",
                f"{HOT}, int64[3] far = {{1, 1, 3}}",
            ),
            "Shape Max Squeeze Slice Expand Clip Gather",
        ),
    ],
    "compute_on_table": [
        Case(
            Graph(TAKEN, "r = Gather(t, i) a = Add(r, b) y = Tanh(a)", f"{TABLE}, float[1,1,2] b = {{1, -2}}"), "Gather"
        ),
        Case(
            Graph(
                TAKEN,
                "r = Gather(t, i) a = Mul(r, r) h = Mul(k, a) s = Sigmoid(h) y = Mul(r, s)",
                f"{TABLE}, float k = {{2}}",
            ),
            "Gather",
        ),
    ],
    "push_squeezes": [
        Case(
            Graph(
                COLUMN,
                "a = Conv(x, w) s = Squeeze(a, at) y = Sub(k, s)",
                f"{KERNEL}, int64[1] at = {{-1}}, float[2,1] k = {{1, 2}}",
            ),
            "Conv Sub Squeeze",
        ),
    ],
    "fuse_hard_swish": [
        Case(
            Graph(
                SAME,
                "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
                "float three = {3}, float zero = {0}, float six = {6}",
            ),
            "HardSigmoid Mul",
        ),
        Case(
            Graph(
                SAME,
                "a = Add(three, x) b = Clip(a, zero, six) y = Mul(b, sixth)",
                "float three = {3}, float zero = {0}, float six = {6}, float sixth = {0.16666667}",
            ),
            "HardSigmoid",
        ),
    ],
    "fold_batch_norm": [
        Case(Graph(IMAGE, "a = Conv(x, w) y = BatchNormalization(a, s, b, m, v)", f"{KERNEL}, {NORM}"), "Conv"),
        Case(
            Graph(
                "(float[n,2,4,4] x) => (float[n,2,4,4] y)",
                "a = ConvTranspose<group = 2>(x, w, c) y = BatchNormalization(a, s, b, m, v)",
                f"float[2,1,1,1] w = {{2, -3}}, float[2] c = {{1, 0.5}}, {NORM}",
            ),
            "ConvTranspose",
            told=False,
        ),
        Case(
            Graph(
                "(float[n,4,4,4] x) => (float[n,2,4,4] y)",
                "a = ConvTranspose<group = 2>(x, w) y = BatchNormalization(a, s, b, m, v)",
                f"float[4,1,1,1] w = {{2, -3, 0.5, 1}}, {NORM}",
            ),
            "ConvTranspose",
            told=False,
        ),
        Case(
            Graph(
                ROWS,
                "a = Gemm<alpha = 0.5, beta = 2.0>(x, w, c) y = BatchNormalization(a, s, b, m, v)",
                f"{MATRIX}, float[1,2] c = {{1, 0.5}}, {NORM}",
            ),
            "Gemm",
        ),
        Case(
            Graph(
                ROWS,
                "a = Gemm<transB = 1>(x, w) y = BatchNormalization<epsilon = 0.1>(a, s, b, m, v)",
                f"float[2,3] w = {{1, -2, 3, 0.5, 0.25, -1}}, {NORM}",
            ),
            "Gemm",
        ),
    ],
    "fold_affine": [
        Case(
            Graph(
                IMAGE,
                "a = Conv<kernel_shape = [1, 1]>(x, w, c) d = Mul(a, k) e = Sub(t, d) y = Div(e, two)",
                f"{KERNEL}, float[2] c = {{1, 0.5}}, float[2,1,1] k = {{2, -3}}, float[1,2,1,1] t = {{1, 2}}, float two = {{2}}",
            ),
            "Conv",
        ),
        Case(Graph(ROWS, "a = MatMul(x, w) y = Mul(k, a)", f"{MATRIX}, float[2] k = {{2, -3}}"), "MatMul"),
        Case(Graph(ROWS, "a = Gemm(x, w) y = Add(a, k)", f"{MATRIX}, float[2] k = {{2, -3}}"), "Gemm"),
    ],
    "fold_affine_ahead": [
        Case(
            Graph(
                "(float[n,2,4,4] x) => (float[n,4,2,2] y)",
                "a = BatchNormalization(x, s, b, m, v) y = Conv<group = 2>(a, w, c)",
                f"float[4,1,3,3] w = {{{', '.join(str(i % 5 - 2) for i in range(36))}}}, float[4] c = {{1, 2, 3, 4}}, {NORM}",
            ),
            "Conv",
        ),
        Case(
            Graph(
                "(float[n,2,4,4] x) => (float[n,2,4,4] y)",
                "a = Mul(x, k) y = Conv<pads = [1, 1, 1, 1]>(a, w)",
                f"float[2,2,3,3] w = {{{', '.join(str(i % 5 - 2) for i in range(36))}}}, float[2,1,1] k = {{2, -1}}",
            ),
            "Conv",
        ),
        Case(
            Graph(
                ROWS,
                "a = Add(x, k) y = Gemm<alpha = 0.5>(a, w, c)",
                f"{MATRIX}, float[3] k = {{2, -3, 1}}, float[2] c = {{1, 2}}",
            ),
            "Gemm",
        ),
        Case(Graph(ROWS, "a = Div(x, k) y = MatMul(a, w)", f"{MATRIX}, float[3] k = {{2, -3, 1}}"), "MatMul"),
    ],
    "lower_batch_norm": [
        Case(
            Graph(
                "(float[n,2,4] x) => (float[n,2,4] y)",
                "y = BatchNormalization<epsilon = 0.0>(x, s, b, m, v)",
                "float[2] s = {1, 1}, float[2] b = {1, 2}, float[2] m = {0, 1}, float[2] v = {1, 1}",
            ),
            "Add",
        ),
        Case(
            Graph(
                "(float[n,2] x) => (float[n,2] y)",
                "y = BatchNormalization(x, s, b, m, v)",
                "float[2] s = {2, 3}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}",
            ),
            "Mul",
        ),
        Case(
            Graph(
                "(float[n,2,4] x) => (float[n,2,4] y)",
                "a = BatchNormalization(x, s, b, m, v) y = Add(a, k)",
                f"float k = {{2}}, {NORM}",
            ),
            "Mul Add Add",
        ),
    ],
    "merge_constants": [
        Case(Graph(SAME, "a = Add(x, k) y = Add(two, a)", "float[3] k = {1, 2, 3}, float two = {2}"), "Add"),
        Case(Graph(SAME, "a = Mul(k, x) y = Mul(a, two)", "float[3] k = {1, 2, 3}, float two = {2}"), "Mul"),
    ],
    "fuse_gemm": [
        Case(Graph(ROWS, "a = MatMul(x, w) y = Add(a, c)", f"{MATRIX}, float[2] c = {{1, 2}}"), "Gemm"),
        Case(Graph(ROWS, "a = MatMul(x, w) y = Add(c, a)", f"{MATRIX}, float[1,2] c = {{1, 2}}"), "Gemm"),
    ],
    "fold_transpose_into_gemm": [
        Case(
            Graph("(float[3,n] x) => (float[n,2] y)", "a = Transpose<perm = [1, 0]>(x) y = Gemm(a, w)", MATRIX), "Gemm"
        ),
    ],
    "turn_vector_products": [
        Case(Graph("(float[3,n] x, float[3] v) => (float[n] y)", "t = Transpose(x) y = MatMul(t, v)"), "MatMul"),
        Case(
            Graph("(float[n,3] x, float[3] v) => (float[n] y)", "t = Transpose<perm = [1, 0]>(x) y = MatMul(v, t)"),
            "MatMul",
        ),
        Case(
            Graph(
                "(float[2,3,4] x, float[3] v) => (float[2,4] y)", "t = Transpose<perm = [0, 2, 1]>(x) y = MatMul(t, v)"
            ),
            "MatMul",
        ),
    ],
    "share_subexpressions": [
        Case(Graph(SAME, "a = Exp(x) b = Exp(x) y = Add(a, b)"), "Exp Add"),
    ],
    "share_initializers": [
        Case(
            Graph(SAME, "a = Mul(x, k) b = Exp(a) y = Mul(b, l)", "float[3] k = {1, 2, 3}, float[3] l = {1, 2, 3}"),
            "Mul Exp Mul",
        ),
    ],
    "remove_identities": [
        Case(Graph(SAME, "a = Identity(x) b = Relu(a) y = Identity(b)"), "Relu"),
    ],
    "remove_unused": [
        Case(Graph(SAME, "a = Exp(x) y = Relu(x)", "float[3] k = {1, 2, 3}"), "Relu"),
    ],
}

TRAINING = "BatchNormalization<training_mode = 1>(a, s, b, m, v)"
REFUSALS: dict[str, list[Refusal]] = {
    "fix_weights": [
        Refusal(Graph("(float[n,3] x, float k) => (float[n,3] y)", "y = Mul(x, k)", "float k = {2}"), "setting"),
    ],
    "lift_constants": [
        Refusal(Graph("() => (float[3] y)", "y = Constant<value = float[3] {1.0, 2.0, 3.0}>()"), "output")
    ],
    "fold_constants": [
        Refusal(
            Graph(SAME, "d = DequantizeLinear(w, s) y = Mul(x, d)", "int8[3] w = {1, 2, 3}, float s = {0.5}"),
            "quantised",
        ),
    ],
    "fold_shapes": [
        Refusal(Graph("(float[n,3] x) => (int64[2] y)", "y = Shape(x)"), "not every size"),
        Refusal(Graph("(float[n,m] x) => (int64 y)", "s = Shape(x) y = Gather(s, one)", "int64 one = {1}"), "run time"),
    ],
    "remove_no_ops": [
        Refusal(
            Graph(SAME, "t = Constant<value_int = 1>() u = Cast<to = 9>(t) y = Dropout(x, r, u)", "float r = {0.5}"),
            "training",
        ),
        Refusal(
            Graph("(float[n] x) => (float[2,n] y)", "y = Mul(x, one)", "float[2,1] one = {1, 1}"), "add dimensions"
        ),
        Refusal(
            Graph("(float[n,3] x) => (float[m,3] y)", "y = Mul(x, one)", "float[2,3] one = {1, 1, 1, 1, 1, 1}"),
            "spread",
        ),
    ],
    "remove_cast_pairs": [Refusal(Graph(SAME, "a = Cast<to = 10>(x) y = Cast<to = 1>(a)"), "rounds")],
    "merge_transposes": [
        Refusal(
            Graph(
                "(float[2,3] x) => (float[2,3] y)", "a = Transpose<perm = [1, 0]>(x) y = Transpose<perm = [1, 0]>(a)"
            ),
            "output of the graph",
        ),
    ],
    "push_transposes": [
        Refusal(
            Graph(
                "(float[2,3,4] x) => (float[4,2,3] y)",
                "a = Transpose<perm = [1, 2, 0]>(x) b = Relu(a) y = Transpose<perm = [1, 2, 0]>(b)",
            ),
            "does not undo",
        ),
    ],
    "merge_reshapes": [
        Refusal(
            Graph(
                "(float[n,1,m] x) => (float[1,n,m] y)",
                "a = Squeeze(x, one) y = Unsqueeze(a, zero)",
                "int64[1] one = {1}, int64[1] zero = {0}",
            ),
            "more than one size",
        ),
    ],
    "look_up_one_hot": [
        Refusal(Graph(INDICES, "e = Equal(i, k) h = Cast<to = 1>(e) y = MatMul(h, w)", HOT, 12), "opset 13"),
        Refusal(
            Graph(
                "(int64[n,2,1] i, float[3,2] w) => (float[n,2,2] y)",
                "e = Equal(i, k) h = Cast<to = 1>(e) y = MatMul(h, w)",
                "int64[3] k = {0, 1, 2}",
            ),
            "not a constant",
        ),
        Refusal(
            Graph(
                INDICES,
                "e = Equal(i, k) h = Cast<to = 1>(e) y = MatMul(h, w)",
                "int64[3] k = {0, 1, 2}, float[3,2] w = {1, 2, 3, 4, 5, inf}",
            ),
            "finite",
        ),
    ],
    "compute_on_table": [
        Refusal(
            Graph(
                "(int64[n] i) => (float[1,n,2] y)",
                "r = Gather(t, i) y = Add(r, b)",
                f"{TABLE}, float[1,1,2] b = {{1, -2}}",
            ),
            "add dimensions",
        ),
        Refusal(
            Graph(
                "(int64 i) => (float[1] y)",
                "r = Gather(t, i) y = Mul(r, b)",
                "float[3] t = {1, 2, 3}, float[1] b = {2}",
            ),
            "add dimensions",
        ),
        Refusal(
            Graph("(int64[n] i) => (double[n,2] y)", "r = Gather(t, i) y = Pow(b, r)", f"{TABLE}, double b = {{2.5}}"),
            "table holds",
        ),
        Refusal(
            Graph(
                "(int64[n] i) => (float[n,2] y)",
                "r = Gather(t, i) s = Gather(u, i) y = Add(r, s)",
                f"{TABLE}, float[4,2] u = {{1, 2, 3, 4, 5, 6, 7, 8}}",
            ),
            "different shapes",
        ),
        Refusal(
            Graph("(int64[n] i) => (int64[n,2] y)", "r = Gather(t, i) y = Pow(two, r)", f"{TABLE}, int64 two = {{2}}"),
            "table holds",
        ),
        Refusal(
            Graph(
                "(int64[2,1] i) => (float[2,1,2] y)",
                "r = Gather(t, i) y = Add(r, b)",
                f"{TABLE}, float[2,1,1] b = {{1, -2}}",
            ),
            "row to row",
        ),
        Refusal(
            Graph("(int64[n] i) => (int64[n] y)", "r = Gather(t, i) y = Neg(r)", "int64[3] t = {1, 2, 3}"),
            "not in floats",
        ),
        Refusal(
            Graph(
                "(int64[n] i) => (float[n,2] y)",
                "r = Gather(t, i) y = Add(r, b)",
                "float[3,1] t = {1, 2, 3}, float[2] b = {1, 2}",
            ),
            "larger",
        ),
    ],
    "push_squeezes": [
        Refusal(
            Graph(
                "(float[1,3,4,1] x) => (float[p,q] y)",
                "a = Conv(x, w) s = Squeeze(a, at) y = Add(s, k)",
                f"{KERNEL}, int64[0] at = {{}}, float[4] k = {{1, 2, 3, 4}}",
            ),
            "axes",
        ),
        Refusal(
            Graph(
                COLUMN,
                "a = Conv(x, w) s = Squeeze(a, at) y = Add(s, k)",
                "float[1,3,1,1] w = {1, -2, 3}, int64[1] at = {3}, float[2,1] k = {1, 2}",
            ),
            "spread",
        ),
        Refusal(
            Graph(
                "(float[n,3,4,1] x) => (float[n,2,4] y, float[n,2,4] s)",
                "a = Conv(x, w) s = Squeeze(a, at) y = Add(s, k)",
                f"{KERNEL}, int64[1] at = {{3}}, float[2,1] k = {{1, 2}}",
            ),
            "output of the graph too",
        ),
        Refusal(
            Graph(
                COLUMN,
                "a = Conv(x, w) s = Squeeze<axes = [3]>(a) y = Add(s, k)",
                f"{KERNEL}, float[2,1] k = {{1, 2}}",
                12,
            ),
            "axes",
        ),
    ],
    "fuse_hard_swish": [
        Refusal(
            Graph(
                "(float[n,3] x) => (float[n,3] y, float[n,3] c)",
                "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
                "float three = {3}, float zero = {0}, float six = {6}",
            ),
            "six times",
        ),
    ],
    "fold_batch_norm": [
        Refusal(
            Graph(
                "(float[n,3,4,4] x, float[2] s) => (float[n,2,4,4] y)",
                "a = Conv(x, w) y = BatchNormalization(a, s, b, m, v)",
                f"{KERNEL}, {NORM.partition('}, ')[2]}",
            ),
            "scale is not a constant",
        ),
        Refusal(
            Graph(
                "(float[n,3,4,4] x) => (float[n,2,4,4] y, float[n,2,4,4] a)",
                "a = Conv(x, w) y = BatchNormalization(a, s, b, m, v)",
                f"{KERNEL}, {NORM}",
            ),
            "output of the graph",
        ),
        Refusal(Graph(IMAGE, f"a = Conv(x, w) y, m2, v2 = {TRAINING}", f"{KERNEL}, {NORM}"), "training"),
    ],
    "fold_affine": [
        Refusal(Graph(IMAGE, "a = Conv(x, w) y = Mul(a, k)", f"{KERNEL}, float[4] k = {{1, 2, 3, 4}}"), "other axes"),
        Refusal(Graph(IMAGE, "a = Conv(x, w) y = Div(a, k)", f"{KERNEL}, float k = {{0}}"), "zero"),
    ],
    "fold_affine_ahead": [
        Refusal(
            Graph(
                "(float[n,2,4,4] x) => (float[n,1,4,4] y)",
                "a = Add(x, k) y = Conv<pads = [1, 1, 1, 1]>(a, w)",
                f"float[1,2,3,3] w = {{{', '.join(str(i % 5 - 2) for i in range(18))}}}, float k = {{1}}",
            ),
            "pads",
        ),
        Refusal(Graph(ROWS, "a = Add(x, k) y = MatMul(a, w)", f"{MATRIX}, float k = {{1}}"), "no bias"),
    ],
    "lower_batch_norm": [
        Refusal(
            Graph("(float[n,2,4] x) => (float[n,2,4] y)", "y = BatchNormalization(x, s, b, m, v)", NORM), "one step"
        )
    ],
    "merge_constants": [
        Refusal(
            Graph(
                "(float[n,3,2] x) => (float[n,3,2] y)",
                "a = Add(x, k) y = Add(a, l)",
                "float[2] k = {1, 2}, float[3,1] l = {1, 2, 3}",
            ),
            "larger",
        ),
    ],
    "fuse_gemm": [
        Refusal(
            Graph(
                "(float[k,n,3] x) => (float[k,n,2] y)",
                "a = MatMul(x, w) y = Add(a, c)",
                f"{MATRIX}, float[2] c = {{1, 2}}",
            ),
            "3 by 2",
        ),
    ],
    "fold_transpose_into_gemm": [
        Refusal(
            Graph(
                "(float[3,n] x) => (float[n,2] y, float[n,3] a)",
                "a = Transpose<perm = [1, 0]>(x) y = Gemm(a, w)",
                MATRIX,
            ),
            "stays",
        ),
    ],
    "turn_vector_products": [
        Refusal(
            Graph("(float[3,n] x, float[3,2] v) => (float[n,2] y)", "t = Transpose(x) y = MatMul(t, v)"),
            "to be a vector",
        ),
        Refusal(
            Graph("(float[2,3,4] x, float[2] v) => (float[4,3] y)", "t = Transpose(x) y = MatMul(t, v)"),
            "does not only swap the last two",
        ),
        Refusal(
            Graph("(float[3,n] x, float[3] v) => (float[n] y, float[n,3] t)", "t = Transpose(x) y = MatMul(t, v)"),
            "an output of the graph",
        ),
    ],
    "share_subexpressions": [
        Refusal(
            Graph(
                SAME,
                "a = Bernoulli<seed = 1.0>(p) b = Bernoulli<seed = 1.0>(p) c = Add(a, b) y = Add(x, c)",
                "float[3] p = {0.5, 0.5, 0.5}",
            ),
            "random",
        ),
    ],
    "share_initializers": [
        Refusal(
            Graph(
                "(float[n,3] x, float[3] k) => (float[n,3] y)",
                "a = Mul(x, k) y = Mul(a, l)",
                "float[3] k = {1, 2, 3}, float[3] l = {1, 2, 3}",
            ),
            "caller",
        ),
    ],
    "remove_identities": [Refusal(Graph(SAME, "y = Identity(x)"), "output of the graph")],
    "remove_unused": [Refusal(Graph("(float[n,3] x, float[n,3] z) => (float[n,3] y)", "y = Relu(x)"), "callers give")],
}
