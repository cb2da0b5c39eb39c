"""The cases at which every gradient rule is certified. A rule without a case fails the suite."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradient_certify import Case, Const, case, graph, scalar

_random = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return _random.normal(size=shape)


def away(*shape: int) -> np.ndarray[Any, Any]:
    """Values that keep clear of zero, one, two and three, where many functions have a corner."""
    return _random.uniform(0.1, 0.9, shape) + _random.integers(-4, 4, shape)


def within(low: float, high: float, *shape: int) -> np.ndarray[Any, Any]:
    return _random.uniform(low, high, shape)


def distinct(*shape: int) -> np.ndarray[Any, Any]:
    """No two values nearer than a step of the differences."""
    return (_random.permutation(int(np.prod(shape))).reshape(shape) * 0.37) % 5 + 0.01 * _random.permutation(
        int(np.prod(shape))
    ).reshape(shape)


def ints(high: int, *shape: int) -> np.ndarray[Any, Any]:
    return _random.integers(0, high, shape)


def torch_op(name: str, *args: Any, **kwargs: Any) -> Any:
    """A function of `torch` or `torch.nn.functional`, found when it is called."""

    def call(*tensors: Any) -> Any:
        import torch

        function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        return function(*tensors, *args, **kwargs)

    return call


def _functional() -> Any:
    import torch

    return torch.nn.functional


MATH = [
    case("Add", normal(2, 3), normal(3), torch=torch_op("add")),
    case("Add", normal(2, 1, 3), normal(4, 1), name="both sides repeat", torch=torch_op("add")),
    case("Sub", normal(2, 3), normal(2, 1), torch=torch_op("sub")),
    case("Mul", normal(2, 3), normal(1, 3), torch=torch_op("mul")),
    case("Mul", normal(2, 3), normal(), name="scalar", torch=torch_op("mul")),
    case("Div", normal(2, 3), within(1, 2, 3), torch=torch_op("div")),
    case("Pow", within(0.5, 2, 2, 3), normal(3), torch=torch_op("pow")),
    case("Pow", normal(2, 3), scalar(2.0, np.float64), name="square", torch=lambda x: x**2),
    case("Pow", normal(2, 3), scalar(3.0, np.float64), name="cube", torch=lambda x: x**3),
    case("Pow", within(0.5, 2, 2, 3), scalar(-1.5, np.float64), name="constant", torch=lambda x: x**-1.5),
    case("Mod", away(2, 3), within(1.2, 1.7, 3), fmod=1, torch=torch_op("fmod")),
    case("Sum", normal(2, 3), normal(3), normal(1, 1), torch=lambda a, b, c: a + b + c),
    case("Mean", normal(2, 3), normal(3), normal(2, 1), torch=lambda a, b, c: (a + b + c) / 3),
    case("Max", normal(2, 3), normal(3), torch=torch_op("maximum")),
    case("Max", normal(2, 3), normal(3), normal(2, 1), name="three"),
    case("Min", normal(2, 3), normal(2, 1), torch=torch_op("minimum")),
    case("Clip", normal(3, 4), scalar(-0.5, np.float64), scalar(0.7, np.float64), torch=torch_op("clamp", -0.5, 0.7)),
    case("Clip", normal(3, 4), np.array(-0.5), np.array(0.7), name="bounds too", torch=torch_op("clamp")),
    case("Clip", normal(3, 4), None, np.array(0.2), name="upper only"),
    case("Neg", normal(3), torch=torch_op("neg")),
    case("Abs", away(3, 3), torch=torch_op("abs")),
    case("Reciprocal", within(0.5, 2, 3), torch=torch_op("reciprocal")),
    case("Sqrt", within(0.5, 2, 3), torch=torch_op("sqrt")),
    case("Exp", normal(3), torch=torch_op("exp")),
    case("Log", within(0.5, 2, 3), torch=torch_op("log")),
    case("Erf", normal(3), torch=torch_op("erf")),
    *(case(op, normal(4), torch=torch_op(op.lower())) for op in ("Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh")),
    case("Tan", within(-1, 1, 4), torch=torch_op("tan")),
    *(case(op, within(-0.8, 0.8, 4), torch=torch_op(op.lower())) for op in ("Asin", "Acos", "Atanh")),
    case("Acosh", within(1.3, 3, 4), torch=torch_op("acosh")),
    case("CumSum", normal(2, 4), scalar(1), torch=torch_op("cumsum", 1)),
    case("CumSum", normal(4, 2), scalar(0), name="exclusive reverse", exclusive=1, reverse=1),
    case("Range", np.array(0.3), np.array(2.25), np.array(0.5), fixed=(1,)),
    case("Identity", normal(2)),
    case("Cast", normal(2), to=11),
    case("CastLike", normal(2), normal(1)),
]

ACTIVATION = [
    case("Relu", away(3, 4), torch=torch_op("relu")),
    case("LeakyRelu", away(3, 4), alpha=0.2, torch=torch_op("leaky_relu", 0.2)),
    case("PRelu", away(2, 3, 4), normal(3, 1), torch=lambda x, s: _functional().prelu(x, s.reshape(-1))),
    case("PRelu", away(2, 3), normal(1), name="one slope", torch=torch_op("prelu")),
    case("ThresholdedRelu", away(3, 4), alpha=1.0, torch=lambda x: _functional().threshold(x, 1.0, 0.0)),
    case("Elu", away(3, 4), alpha=1.3, torch=torch_op("elu", 1.3)),
    case("Celu", away(3, 4), alpha=1.3, torch=torch_op("celu", 1.3), single=True),
    case("Selu", away(3, 4), torch=torch_op("selu")),
    case("Gelu", normal(3, 4), torch=torch_op("gelu")),
    case(
        "Gelu", normal(3, 4), name="tanh", approximate="tanh", torch=lambda x: _functional().gelu(x, approximate="tanh")
    ),
    case("Mish", normal(3, 4), torch=torch_op("mish")),
    case("Swish", normal(3, 4), alpha=1.0, torch=torch_op("silu")),
    case("Swish", normal(3, 4), name="alpha", alpha=1.7),
    case("HardSigmoid", away(3, 4), alpha=1 / 6, beta=0.5, torch=torch_op("hardsigmoid")),
    case("HardSwish", away(3, 4), torch=torch_op("hardswish")),
    case("Sigmoid", normal(3, 4), torch=torch_op("sigmoid")),
    case("Tanh", normal(3, 4), torch=torch_op("tanh")),
    case("Softplus", normal(3, 4), torch=torch_op("softplus")),
    case("Softsign", away(3, 4), torch=torch_op("softsign")),
    case("Shrink", away(3, 4), lambd=1.0, bias=1.0, torch=torch_op("softshrink", 1.0)),
    case("Softmax", normal(2, 3, 4), axis=-1, torch=torch_op("softmax", -1)),
    case("Softmax", normal(2, 3, 4), name="inner axis", axis=1, torch=torch_op("softmax", 1)),
    case("LogSoftmax", normal(2, 3, 4), axis=1, torch=torch_op("log_softmax", 1)),
]

MATRIX = [
    case("MatMul", normal(2, 3), normal(3, 4), torch=torch_op("matmul")),
    case("MatMul", normal(2, 5, 3), normal(3, 4), name="batch by matrix", torch=torch_op("matmul")),
    case("MatMul", normal(2, 1, 5, 3), normal(4, 3, 2), name="batches repeat", torch=torch_op("matmul")),
    case("MatMul", normal(5, 3), normal(4, 3, 2), name="matrix by batch", torch=torch_op("matmul")),
    case("MatMul", normal(3), normal(3), name="vectors", torch=torch_op("matmul")),
    case("MatMul", normal(2, 4, 3), normal(3), name="batch by vector", torch=torch_op("matmul")),
    case("MatMul", normal(3), normal(2, 3, 4), name="vector by batch", torch=torch_op("matmul")),
    *(
        case(
            "Gemm",
            normal(*((3, 2) if ta else (2, 3))),
            normal(*((4, 3) if tb else (3, 4))),
            normal(*shape),
            name=f"{ta}{tb}",
            alpha=0.5,
            beta=1.5,
            transA=ta,
            transB=tb,
            torch=lambda a, b, c, ta=ta, tb=tb: 0.5 * (a.T if ta else a) @ (b.T if tb else b) + 1.5 * c,
        )
        for ta, tb, shape in ((0, 0, (4,)), (0, 1, (2, 1)), (1, 0, (2, 4)), (1, 1, ()))
    ),
    case("Gemm", normal(2, 3), normal(3, 4), name="no bias", torch=torch_op("matmul")),
    *(
        case(
            "Einsum",
            *(normal(*s) for s in shapes),
            name=equation,
            equation=equation,
            torch=None if "->" not in equation else lambda *x, e=equation: __import__("torch").einsum(e, *x),
        )
        for equation, shapes in (
            ("ij,jk->ik", ((2, 3), (3, 4))),
            ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))),
            ("ij->i", ((2, 3),)),
            ("ij,j", ((2, 3), (3,))),
            ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5))),
            ("ii->i", ((3, 3),)),
            ("ii", ((3, 3),)),
            ("i,j->ij", ((2,), (3,))),
            ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4))),
            ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
        )
    ),
]

_REDUCE: dict[str, Any] = {
    "ReduceSum": lambda x, d, k: x.sum(d, k),
    "ReduceMean": lambda x, d, k: x.mean(d, k),
    "ReduceMax": lambda x, d, k: x.amax(d, k),
    "ReduceMin": lambda x, d, k: x.amin(d, k),
    "ReduceProd": None,
    "ReduceL1": lambda x, d, k: x.abs().sum(d, k),
    "ReduceL2": lambda x, d, k: (x * x).sum(d, k).sqrt(),
    "ReduceLogSum": lambda x, d, k: x.sum(d, k).log(),
    "ReduceLogSumExp": lambda x, d, k: x.logsumexp(d, k),
    "ReduceSumSquare": lambda x, d, k: (x * x).sum(d, k),
}

REDUCE = [
    made
    for op, reference in _REDUCE.items()
    for made in (
        case(
            op,
            distinct(2, 3, 4) + 0.2,
            Const(1, -1),
            keepdims=0,
            torch=reference and (lambda x, r=reference: r(x, (1, 2), False)),
        ),
        case(
            op,
            distinct(2, 3, 4) + 0.2,
            Const(0),
            name="keep",
            keepdims=1,
            torch=reference and (lambda x, r=reference: r(x, (0,), True)),
        ),
        case(
            op,
            distinct(2, 3) + 0.2,
            name="all",
            keepdims=0,
            torch=reference and (lambda x, r=reference: r(x, (0, 1), False)),
        ),
        case(op, distinct(2, 3) + 0.2, np.array([1]), name="axes given later", keepdims=0),
        case(
            op,
            distinct(2, 3) + 0.2,
            name="nothing reduced",
            keepdims=0,
            noop_with_empty_axes=1,
            second=op != "ReduceLogSum",
        ),
    )
] + [
    case(
        "ReduceProd",
        np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.5]]),
        Const(1),
        name="zeros",
        keepdims=0,
        second=False,
        torch=lambda x: x.prod(1),
    ),
]

SHAPE = [
    case("Reshape", normal(2, 6), Const(3, -1), torch=lambda x: x.reshape(3, 4)),
    case("Flatten", normal(2, 3, 4), axis=2),
    case("Squeeze", normal(2, 1, 3), Const(1)),
    case("Unsqueeze", normal(2, 3), Const(0, -1)),
    case("Transpose", normal(2, 3, 4), perm=[2, 0, 1], torch=lambda x: x.permute(2, 0, 1)),
    case("Transpose", normal(2, 3, 4), name="reversed"),
    case("Concat", normal(2, 3), normal(2, 1), normal(2, 2), axis=1),
    case("Concat", normal(2, 3), name="one", axis=-1),
    case("Split", normal(6, 2), Const(1, 3, 2), outputs=3, of=(0, 1, 2), axis=0),
    case("Split", normal(2, 6), name="part used", num_outputs=3, outputs=3, of=(1,), axis=1),
    case("Slice", normal(5, 6), Const(1, -4), Const(4, 6), Const(0, 1), torch=lambda x: x[1:4, 2:6]),
    case("Slice", normal(5, 6), Const(1), Const(1000), Const(1), Const(2), name="steps", torch=lambda x: x[:, 1::2]),
    case(
        "Slice", normal(5, 6), Const(-1), Const(-1000), Const(0), Const(-1), name="backwards", torch=lambda x: x.flip(0)
    ),
    case("Slice", normal(5, 6), np.array([1]), np.array([3]), np.array([0]), name="bounds given later"),
    case("Pad", normal(2, 3), Const(1, 0, 0, 2), torch=lambda x: _functional().pad(x, (0, 2, 1, 0))),
    case("Pad", normal(4, 5), Const(-1, 2, 0, -1), np.array(0.7), name="crop and value"),
    case("Pad", normal(4, 5), Const(1, 2), None, Const(1), name="axes"),
    *(case("Pad", normal(4, 5), Const(2, 1, 1, 3), name=mode, mode=mode) for mode in ("reflect", "edge", "wrap")),
    case("Tile", normal(2, 3), Const(2, 3), torch=lambda x: x.tile(2, 3)),
    case("Tile", normal(2, 3), np.array([3, 1]), name="repeats given later"),
    case("Expand", normal(3, 1), Const(2, 1, 4), torch=lambda x: x.expand(2, 3, 4)),
    case("Expand", normal(3, 1), np.array([2, 3, 4]), name="shape given later"),
    case("Where", normal(2, 3) > 0, normal(2, 3), normal(3), torch=torch_op("where")),
    case("Trilu", normal(3, 4), torch=torch_op("triu")),
    case("Trilu", normal(2, 3, 4), scalar(1), name="lower", upper=0, torch=torch_op("tril", 1)),
    case("DepthToSpace", normal(2, 8, 2, 3), blocksize=2),
    case("DepthToSpace", normal(2, 8, 2, 3), name="CRD", blocksize=2, mode="CRD", torch=torch_op("pixel_shuffle", 2)),
    case("SpaceToDepth", normal(2, 2, 4, 6), blocksize=2),
    case("ReverseSequence", normal(4, 3), np.array([2, 4, 1]), time_axis=0, batch_axis=1),
]

INDEX = [
    case("Gather", normal(5, 3), np.array([[0, 2], [2, 4]]), torch=lambda x, i: x[i]),
    case("Gather", normal(3, 5, 2), np.array([1, 1, -1]), name="inner axis", axis=1, torch=lambda x, i: x[:, i]),
    case("Gather", normal(3, 5), scalar(2), name="one column", axis=1, torch=lambda x: x[:, 2]),
    case("Gather", normal(3, 5), np.array(2, np.int32), name="one row", torch=lambda x, i: x[i]),
    case("GatherND", normal(3, 4, 2), np.array([[0, 1], [2, 3], [0, 1]]), torch=lambda x, i: x[i[:, 0], i[:, 1]]),
    case("GatherND", normal(2, 4, 3), np.array([[1], [3]]), name="batch", batch_dims=1),
    case("GatherElements", normal(3, 4), np.array([[0, 1, 1], [3, 3, 3]]), axis=1, torch=lambda x, i: x.gather(1, i)),
    case("ScatterElements", normal(3, 4), np.array([[0, 2], [1, 3]]), normal(2, 2), axis=1),
    case(
        "ScatterElements", normal(3, 4), np.array([[0, 0], [1, 3]]), normal(2, 2), name="add", axis=1, reduction="add"
    ),
    case(
        "ScatterElements", normal(3, 4), np.array([[0, 0], [1, 3]]), normal(2, 2), name="mul", axis=1, reduction="mul"
    ),
    case(
        "ScatterElements",
        normal(3, 4),
        np.array([[0, 0], [1, 3]]),
        normal(2, 2),
        name="max",
        axis=1,
        reduction="max",
        second=False,
    ),
    case("ScatterND", normal(4, 3), np.array([[1], [3]]), normal(2, 3)),
    case("ScatterND", normal(4, 3), np.array([[1], [1]]), normal(2, 3), name="add", reduction="add"),
    case("ScatterND", normal(4, 3), np.array([[1], [1]]), normal(2, 3), name="mul", reduction="mul"),
    case("ScatterND", normal(4, 3), np.array([[1], [1]]), normal(2, 3), name="min", reduction="min", second=False),
    case("TopK", distinct(3, 5), Const(2), outputs=2, axis=1, torch=lambda x: x.topk(2, 1)[0]),
    case("Compress", normal(3, 4), np.array([True, False, True]), axis=0),
    case("OneHot", np.array([0, 2, 1]), scalar(3), normal(2), axis=-1),
]

LOSS = [
    case("SoftmaxCrossEntropyLoss", normal(4, 3), ints(3, 4), torch=torch_op("cross_entropy")),
    *(
        case(
            "SoftmaxCrossEntropyLoss",
            normal(4, 3),
            ints(3, 4),
            name=r,
            reduction=r,
            torch=torch_op("cross_entropy", reduction=r),
        )
        for r in ("sum", "none")
    ),
    case(
        "SoftmaxCrossEntropyLoss",
        normal(4, 3),
        np.array([0, 2, -1, 1]),
        within(0.5, 2, 3),
        name="weights and ignored",
        ignore_index=-1,
        fixed=(2,),
        torch=lambda x, t, w: _functional().cross_entropy(x, t, w, ignore_index=-1),
    ),
    case("SoftmaxCrossEntropyLoss", normal(2, 3, 4), ints(3, 2, 4), name="spatial", outputs=2, of=(0, 1)),
    case(
        "SoftmaxCrossEntropyLoss", normal(4, 3), np.array([0, 2, 5, 1]), name="ignored", ignore_index=5, reduction="sum"
    ),
    case("NegativeLogLikelihoodLoss", normal(4, 3), ints(3, 4), torch=torch_op("nll_loss")),
    case(
        "NegativeLogLikelihoodLoss",
        normal(2, 3, 4),
        ints(3, 2, 4),
        within(0.5, 2, 3),
        name="weights",
        fixed=(2,),
        torch=torch_op("nll_loss"),
    ),
    case("NegativeLogLikelihoodLoss", normal(4, 3), ints(3, 4), name="none", reduction="none"),
]


def _conv(**settings: Any) -> Any:
    def call(x: Any, w: Any, b: Any = None) -> Any:
        return getattr(_functional(), f"conv{x.ndim - 2}d")(x, w, b, **settings)

    return call


def _conv_transpose(**settings: Any) -> Any:
    def call(x: Any, w: Any, b: Any = None) -> Any:
        return getattr(_functional(), f"conv_transpose{x.ndim - 2}d")(x, w, b, **settings)

    return call


def _sized(op: str, *inputs: Any, **settings: Any) -> Case:
    """A convolution, whose weights have known sizes even where nothing else has."""
    return case(op, *inputs, sized=(1, 2), **settings)


CONVOLUTION = [
    _sized("Conv", normal(2, 3, 5, 5), normal(4, 3, 3, 3), normal(4), torch=_conv()),
    _sized("Conv", normal(2, 2, 6), normal(3, 2, 3), name="1d", pads=[1, 1], torch=_conv(padding=1)),
    _sized("Conv", normal(1, 2, 3, 4, 3), normal(2, 2, 2, 2, 2), name="3d", torch=_conv()),
    _sized(
        "Conv",
        normal(2, 3, 7, 6),
        normal(4, 3, 3, 2),
        normal(4),
        name="strides leave some",
        strides=[2, 3],
        torch=_conv(stride=(2, 3)),
    ),
    _sized(
        "Conv",
        normal(2, 2, 7, 7),
        normal(3, 2, 3, 3),
        name="dilation",
        dilations=[2, 1],
        pads=[1, 0, 1, 0],
        torch=_conv(dilation=(2, 1), padding=(1, 0)),
    ),
    _sized(
        "Conv",
        normal(2, 4, 5, 5),
        normal(6, 2, 3, 3),
        normal(6),
        name="groups",
        group=2,
        pads=[1, 1, 1, 1],
        torch=_conv(groups=2, padding=1),
    ),
    _sized(
        "Conv",
        normal(2, 3, 6, 6),
        normal(3, 1, 3, 3),
        name="depthwise",
        group=3,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        torch=_conv(groups=3, stride=2, padding=1),
    ),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 3, 3), name="uneven pads", pads=[0, 1, 2, 0]),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 2, 3), name="same upper", auto_pad="SAME_UPPER", strides=[2, 2]),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 2, 2), name="same lower", auto_pad="SAME_LOWER"),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 2, 2), name="valid", auto_pad="VALID"),
    _sized("Conv", normal(3, 2, 2, 2), normal(8, 2, 1, 1), name="small images", torch=_conv()),
    _sized("ConvTranspose", normal(2, 3, 4, 4), normal(3, 2, 3, 3), normal(2), torch=_conv_transpose()),
    _sized(
        "ConvTranspose",
        normal(2, 2, 4),
        normal(2, 3, 3),
        name="1d",
        strides=[2],
        pads=[1, 1],
        output_padding=[1],
        torch=_conv_transpose(stride=2, padding=1, output_padding=1),
    ),
    _sized("ConvTranspose", normal(1, 2, 2, 3, 2), normal(2, 2, 2, 2, 2), name="3d", torch=_conv_transpose()),
    _sized(
        "ConvTranspose",
        normal(2, 4, 3, 3),
        normal(4, 2, 3, 3),
        name="groups",
        group=2,
        strides=[2, 2],
        dilations=[1, 2],
        torch=_conv_transpose(groups=2, stride=2, dilation=(1, 2)),
    ),
    _sized(
        "ConvTranspose",
        normal(1, 2, 3, 3),
        normal(2, 2, 3, 3),
        name="output shape",
        strides=[2, 2],
        output_shape=[6, 6],
        dynamic=False,
    ),
    _sized(
        "ConvTranspose",
        normal(1, 2, 3, 3),
        normal(2, 2, 3, 3),
        name="same",
        strides=[2, 2],
        auto_pad="SAME_UPPER",
        dynamic=False,
    ),
]


def _max_pool(*args: Any, **settings: Any) -> Any:
    return lambda x: getattr(_functional(), f"max_pool{x.ndim - 2}d")(x, *args, **settings)


def _average_pool(*args: Any, **settings: Any) -> Any:
    return lambda x: getattr(_functional(), f"avg_pool{x.ndim - 2}d")(x, *args, **settings)


POOL = [
    case("MaxPool", distinct(2, 2, 4, 6), kernel_shape=[2, 2], strides=[2, 2], torch=_max_pool(2)),
    case(
        "MaxPool", distinct(2, 2, 5, 7), name="last left out", kernel_shape=[2, 2], strides=[2, 2], torch=_max_pool(2)
    ),
    case(
        "MaxPool",
        distinct(2, 2, 6, 6),
        name="overlap",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        torch=_max_pool(3, 2, 1),
    ),
    case("MaxPool", distinct(2, 2, 6), name="1d", kernel_shape=[3], torch=_max_pool(3, 1)),
    case("MaxPool", distinct(1, 1, 4, 4, 4), name="3d", kernel_shape=[2, 2, 2], strides=[2, 2, 2], torch=_max_pool(2)),
    case(
        "MaxPool",
        distinct(2, 1, 7, 7),
        name="dilation",
        kernel_shape=[2, 2],
        dilations=[2, 2],
        torch=_max_pool(2, 1, 0, 2),
    ),
    case(
        "MaxPool",
        distinct(2, 2, 6, 6),
        name="ceil",
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        torch=_max_pool(3, 2, 0, 1, True),
    ),
    case("MaxPool", distinct(2, 2, 5, 6), name="same", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    case(
        "MaxPool",
        np.zeros((1, 1, 4, 4)),
        name="ties",
        kernel_shape=[3, 3],
        torch=_max_pool(3, 1),
        second=False,
        smooth=False,
    ),
    case("AveragePool", normal(2, 2, 4, 6), kernel_shape=[2, 2], strides=[2, 2], torch=_average_pool(2)),
    case(
        "AveragePool",
        normal(2, 2, 6, 5),
        name="overlap",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        torch=_average_pool(3, 2, 1, count_include_pad=False),
    ),
    case(
        "AveragePool",
        normal(2, 2, 6, 5),
        name="pads count",
        kernel_shape=[3, 3],
        strides=[2, 1],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        torch=_average_pool(3, (2, 1), 1),
    ),
    case(
        "AveragePool",
        normal(2, 2, 6, 7),
        name="ceil",
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        torch=_average_pool(3, 2, 0, True),
    ),
    case("AveragePool", normal(2, 2, 5, 6), name="same", kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    case("AveragePool", normal(2, 2, 7), name="1d", kernel_shape=[3], strides=[2], torch=_average_pool(3, 2)),
    case("LpPool", away(2, 2, 5, 5), kernel_shape=[2, 2], strides=[1, 2], p=2),
    case("LpPool", away(2, 2, 5, 5), name="p 3", kernel_shape=[2, 2], p=3),
    case("GlobalAveragePool", normal(2, 3, 4, 2), torch=lambda x: x.mean((2, 3), True)),
    case("GlobalMaxPool", distinct(2, 3, 4, 2), torch=torch_op("adaptive_max_pool2d", 1)),
    case("GlobalLpPool", away(2, 3, 4, 2), p=2, opset=18),
    case("MaxUnpool", normal(1, 1, 2, 2), np.array([[[[1, 3], [8, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]),
    case("Col2Im", normal(2, 2 * 4, 9), Const(4, 4), Const(2, 2)),
    case("Col2Im", normal(2, 2 * 4, 9), Const(5, 5), Const(2, 2), name="strides", strides=[2, 2], pads=[1, 0, 0, 1]),
]

NORM = [
    case(
        "BatchNormalization",
        normal(4, 3, 2, 2),
        normal(3),
        normal(3),
        normal(3),
        within(0.5, 2, 3),
        torch=lambda x, s, b, m, v: (
            (x - m[:, None, None]) / (v[:, None, None] + 1e-5).sqrt() * s[:, None, None] + b[:, None, None]
        ),
    ),
    case(
        "BatchNormalization",
        normal(4, 3, 2, 2),
        normal(3),
        normal(3),
        normal(3),
        within(0.5, 2, 3),
        name="training",
        training_mode=1,
        outputs=3,
        of=(0, 1, 2),
        fixed=(),
    ),
    case(
        "BatchNormalization",
        normal(4, 3),
        normal(3),
        normal(3),
        normal(3),
        within(0.5, 2, 3),
        name="training flat",
        training_mode=1,
        outputs=3,
        fixed=(3, 4),
        torch=lambda x, s, b, m, v: _functional().batch_norm(x, None, None, s, b, True),
    ),
    case(
        "LayerNormalization",
        normal(2, 3, 4),
        normal(4),
        normal(4),
        torch=lambda x, s, b: _functional().layer_norm(x, (4,), s, b),
    ),
    case(
        "LayerNormalization",
        normal(2, 3, 4),
        normal(3, 4),
        name="two axes",
        axis=1,
        torch=lambda x, s: _functional().layer_norm(x, (3, 4), s),
    ),
    case(
        "RMSNormalization",
        normal(2, 3, 4),
        normal(4),
        epsilon=1e-5,
        torch=lambda x, s: _functional().rms_norm(x, (4,), s, 1e-5),
    ),
    case(
        "InstanceNormalization",
        normal(2, 3, 4, 2),
        normal(3),
        normal(3),
        torch=lambda x, s, b: _functional().instance_norm(x, weight=s, bias=b),
    ),
    case(
        "GroupNormalization",
        normal(2, 4, 3),
        normal(4),
        normal(4),
        num_groups=2,
        stash_type=11,
        torch=lambda x, s, b: _functional().group_norm(x, 2, s, b),
    ),
    case("GroupNormalization", normal(2, 4, 3), normal(2), normal(2), name="opset 18", num_groups=2, opset=18),
    case("LpNormalization", away(2, 3), axis=1, p=2, torch=torch_op("normalize")),
    case("LpNormalization", away(2, 3), name="p 1", axis=0, p=1),
    case(
        "LRN",
        normal(2, 5, 3, 2),
        size=3,
        alpha=0.1,
        beta=0.6,
        bias=1.0,
        torch=torch_op("local_response_norm", 3, 0.1, 0.6, 1.0),
    ),
    case("Dropout", normal(3, 4), scalar(0.3, np.float64), scalar(False, np.bool_), name="inference"),
    case("Dropout", normal(3, 4), scalar(0.0, np.float64), np.array(True), name="nothing dropped"),
    case(
        "MeanVarianceNormalization",
        normal(3, 2, 2, 2),
        single=True,
        torch=lambda x: (x - x.mean((0, 2, 3), True)) / (x.var((0, 2, 3), correction=0, keepdim=True).sqrt() + 1e-9),
    ),
]


def _unrolled(h: Any, x: Any, w: Any) -> Any:
    import torch

    ys = []
    for v in x:
        h = (h @ w + v).tanh()
        ys.append(h * v)
    return h, torch.stack(ys)


def _interpolate(**settings: Any) -> Any:
    return lambda x: _functional().interpolate(x, **settings)


RESIZE = [
    case(
        "Resize",
        normal(1, 2, 3, 4),
        None,
        Const(1.0, 1.0, 2.0, 2.0, dtype=np.float32),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
        torch=_interpolate(scale_factor=2, mode="nearest"),
    ),
    case(
        "Resize",
        normal(1, 2, 3, 4),
        None,
        None,
        Const(1, 2, 5, 7),
        name="linear",
        mode="linear",
        torch=_interpolate(size=(5, 7), mode="bilinear", align_corners=False),
    ),
    case(
        "Resize",
        normal(1, 2, 4, 4),
        None,
        None,
        Const(1, 2, 2, 6),
        name="corners",
        mode="linear",
        coordinate_transformation_mode="align_corners",
        torch=_interpolate(size=(2, 6), mode="bilinear", align_corners=True),
    ),
    case(
        "Resize",
        normal(1, 1, 4, 5),
        None,
        None,
        Const(1, 1, 7, 8),
        name="cubic",
        mode="cubic",
        torch=_interpolate(size=(7, 8), mode="bicubic", align_corners=False),
    ),
    case(
        "Resize", normal(1, 1, 6, 6), None, Const(0.5, 0.5, dtype=np.float32), name="axes", mode="linear", axes=[2, 3]
    ),
    case("Resize", normal(1, 1, 6), None, Const(1.0, 1.0, 1.5, dtype=np.float32), name="1d", mode="linear"),
]


CONTROL = [
    graph(
        "If",
        """case (double[N,3] x, double[3] w, bool c) => (double[N,3] y) {
            y = If (c) <
                then_branch = t () => (double[N,3] a) { a = Mul (x, w) },
                else_branch = e () => (double[N,3] b) { s = Sin (x)  b = Add (s, x) }
            >
        }""",
        name=name,
        x=normal(2, 3),
        w=normal(3),
        c=np.array(name == "then"),
        torch=(lambda x, w, c: x * w) if name == "then" else (lambda x, w, c: x.sin() + x),
    )
    for name in ("then", "else")
] + [
    graph(
        "Scan",
        """case (double[B,3] h, double[T,B,3] x, double[3,3] w) => (double[B,3] last, double[T,B,3] ys) {
            last, ys = Scan <num_scan_inputs = 1, body = step (double[B,3] s, double[B,3] v) => (double[B,3] n, double[B,3] o) {
                p = MatMul (s, w)
                q = Add (p, v)
                n = Tanh (q)
                o = Mul (n, v)
            }> (h, x)
        }""",
        h=normal(2, 3),
        x=normal(4, 2, 3),
        w=normal(3, 3),
        torch=_unrolled,
    ),
    graph(
        "Scan",
        """case (double[B,3] h, double[B,T,3] x, double[3] w) => (double[B,3] last, double[B,T,3] ys) {
            last, ys = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
                             scan_output_directions = [0],
                             body = step (double[B,3] s, double[B,3] v) => (double[B,3] n, double[B,3] o) {
                p = Mul (s, w)
                n = Add (p, v)
                o = Sin (n)
            }> (h, x)
        }""",
        name="backwards on an inner axis",
        h=normal(2, 3),
        x=normal(2, 4, 3),
        w=normal(3),
    ),
    graph(
        "Loop",
        """case (int64 n, double[3] h, double[3] w) => (double[3] last, double[T,3] ys) {
            start = Constant <value = bool {1}> ()
            last, ys = Loop (n, start, h) <body = step (int64 i, bool go, double[3] s) => (bool on, double[3] next, double[3] o) {
                on = Identity (go)
                f = CastLike (i, s)
                p = Mul (s, w)
                q = Add (p, f)
                next = Tanh (q)
                o = Mul (next, w)
            }>
        }""",
        n=np.array(3),
        h=normal(3),
        w=normal(3),
    ),
    graph(
        "Loop",
        """case (double[3] h, double[3] w) => (double[3] last) {
            start = Constant <value = bool {1}> ()
            last = Loop ("", start, h) <body = step (int64 i, bool go, double[3] s) => (bool on, double[3] next) {
                four = Constant <value = int64 {4}> ()
                on = Less (i, four)
                p = Mul (s, w)
                next = Sin (p)
            }>
        }""",
        name="until",
        h=normal(3),
        w=normal(3),
    ),
]


def _recurrent(op: str, gates: int, **settings: Any) -> Case:
    """A layer over [4 steps, 2 samples, 3 features] with a state of 2."""
    name, lengths = settings.pop("name", ""), settings.pop("lengths", None)
    peephole = normal(1, 6) if settings.pop("peephole", False) else None
    ways = 2 if settings.get("direction") == "bidirectional" else 1
    states = [normal(ways, 2, 2) for _ in range(2 if op == "LSTM" else 1)]
    outputs = 3 if op == "LSTM" else 2
    inputs = [
        normal(4, 2, 3),
        normal(ways, gates * 2, 3),
        normal(ways, gates * 2, 2),
        normal(ways, gates * 4),
        lengths,
        *states,
    ]
    if peephole is not None:
        inputs.append(peephole)
    return case(
        op, *inputs, name=name, outputs=outputs, of=tuple(range(outputs)), hidden_size=2, sized=(1, 2, 3, 7), **settings
    )


def _torch_lstm(x: Any, w: Any, r: Any, b: Any, h: Any, c: Any) -> Any:
    """PyTorch orders the gates i, f, g, o, and ONNX i, o, f, c."""
    import torch

    layer = torch.nn.LSTM(3, 2, dtype=torch.float64)

    def order(t: Any) -> Any:
        i, o, f, g = t.chunk(4)
        return torch.cat([i, f, g, o])

    wb, rb = b[0].chunk(2)
    weights = {
        "weight_ih_l0": order(w[0]),
        "weight_hh_l0": order(r[0]),
        "bias_ih_l0": order(wb),
        "bias_hh_l0": order(rb),
    }
    y, (last, cell) = torch.func.functional_call(layer, weights, (x, (h, c)))
    return y[:, None], last, cell


def _torch_gru(x: Any, w: Any, r: Any, b: Any, h: Any) -> Any:
    """PyTorch orders the gates r, z, n, and ONNX z, r, h."""
    import torch

    layer = torch.nn.GRU(3, 2, dtype=torch.float64)

    def order(t: Any) -> Any:
        z, reset, n = t.chunk(3)
        return torch.cat([reset, z, n])

    wb, rb = b[0].chunk(2)
    weights = {
        "weight_ih_l0": order(w[0]),
        "weight_hh_l0": order(r[0]),
        "bias_ih_l0": order(wb),
        "bias_hh_l0": order(rb),
    }
    y, last = torch.func.functional_call(layer, weights, (x, h))
    return y[:, None], last


_LENGTHS = np.array([4, 2], np.int32)
RECURRENT = [
    _recurrent("RNN", 1),
    _recurrent("RNN", 1, name="reverse relu", direction="reverse", activations=["Relu"], second=False),
    _recurrent("RNN", 1, name="both ways with lengths", direction="bidirectional", lengths=_LENGTHS),
    _recurrent("GRU", 3, name="linear before reset", linear_before_reset=1, torch=_torch_gru),
    _recurrent("GRU", 3, name="both ways", direction="bidirectional"),
    _recurrent("GRU", 3, name="lengths", lengths=_LENGTHS, second=False),
    _recurrent("LSTM", 4, torch=_torch_lstm),
    _recurrent("LSTM", 4, name="both ways with lengths", direction="bidirectional", lengths=_LENGTHS),
    _recurrent("LSTM", 4, name="peephole", peephole=True, second=False),
    _recurrent("LSTM", 4, name="input forget", input_forget=1, second=False),
]

_HEADS = [normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)]


def _attention(q: Any, k: Any, v: Any, *rest: Any, **settings: Any) -> Any:
    return _functional().scaled_dot_product_attention(q, k, v, *rest, **settings)


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    a, b = x.chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


# Written out by the function bodies that ONNX gives them.
BODIES = [
    case("Attention", *_HEADS, torch=_attention),
    case("Attention", *_HEADS, normal(3, 5), name="mask", torch=_attention),
    case("Attention", *_HEADS, name="causal", is_causal=1),
    case(
        "Attention",
        normal(2, 3, 8),
        normal(2, 5, 8),
        normal(2, 5, 8),
        name="flat heads",
        q_num_heads=2,
        kv_num_heads=2,
        dynamic=False,
    ),
    case("RotaryEmbedding", normal(2, 3, 4, 8), normal(2, 4, 4), normal(2, 4, 4), single=True, torch=_rotated),
    case("CenterCropPad", normal(4, 6), Const(2, 8)),
]

CASES: list[Case] = [
    *MATH,
    *ACTIVATION,
    *MATRIX,
    *REDUCE,
    *SHAPE,
    *INDEX,
    *LOSS,
    *CONVOLUTION,
    *POOL,
    *NORM,
    *RESIZE,
    *CONTROL,
    *RECURRENT,
    *BODIES,
]
